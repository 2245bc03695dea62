"""The shell node: its command read for where values stand, and the processes that it starts."""
