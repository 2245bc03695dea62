"""Scorers, their figures, and the sandbox in which code answers run."""
