"""Frozen values and errors that all layers share."""
