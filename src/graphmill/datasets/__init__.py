"""Sources of items and sinks for results."""
