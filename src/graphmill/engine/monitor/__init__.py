"""What is reported about a run: events, alerts, traces; and the machine's state."""
