"""The messages of Anthropic."""
