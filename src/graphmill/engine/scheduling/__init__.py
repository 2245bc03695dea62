"""Scheduling: what starts next, and the limits it respects. Pure, but for nested calls."""
