"""The file nodes: where paths may lead, what is done with files, and their content."""
