"""Providers of models, one folder per protocol, and what those that speak HTTP share."""
