"""What the file nodes share: which paths may be taken, the way to a file, its bytes and its text."""
