"""Workflows that ship with Graphmill."""
