"""The http node: what it sends and where it may go, redirects, and what comes back."""
