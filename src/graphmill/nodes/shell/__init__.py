"""The shell node: its params, where values may stand in its command, and its processes."""
