"""Models: which one a name means, how it is asked, and what becomes of its answer."""
