"""From a workflow as it was written to a graph: a list of passes, one file each."""
