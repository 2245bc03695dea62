"""The journal in one SQLite file beside the project."""
