"""The demo: ``make demo``."""
