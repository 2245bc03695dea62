"""The durable record of runs: what was done, by whom, and what is left to do."""
