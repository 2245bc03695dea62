"""What runs inside a sandbox: the standard library alone, and nothing of the rest of Graphmill."""
