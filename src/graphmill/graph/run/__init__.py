"""One job of a graph, as a program of steps: what comes next is decided here, and nothing is touched."""
