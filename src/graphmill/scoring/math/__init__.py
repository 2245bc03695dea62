"""The math grader: whether an answer equals a reference answer."""
