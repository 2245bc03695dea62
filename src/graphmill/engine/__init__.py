"""The executor: queue, policy, retry, attempts, results, statistics. It knows nothing of the rooms above it."""
