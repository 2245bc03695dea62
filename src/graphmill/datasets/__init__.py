"""Sources of items and sinks for results, one file per format."""
