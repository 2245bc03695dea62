"""What Graphmill costs, measured against plain Python in the same run: ``python -m benchmarks``."""
