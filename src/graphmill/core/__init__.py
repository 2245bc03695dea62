"""Frozen values and errors that every other room speaks in."""
