"""From a workflow file to a graph that runs one job at a time, any number of times."""
