"""The shell node: its params, where its command may use values, and its processes."""
