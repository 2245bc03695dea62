"""Answers that need not be asked for: those that are kept, and those that somebody else is asking for at this moment."""
