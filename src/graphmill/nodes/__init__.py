"""Node types, one file each."""
