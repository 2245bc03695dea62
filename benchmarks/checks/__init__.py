"""Checks of scorers over problem sets that are not part of this repository; each takes the path of a file."""
