"""Attempts: the user's code, run in tasks, threads and processes."""
