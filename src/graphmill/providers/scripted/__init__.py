"""A model that answers by rules or a function, faults included, and calls nobody."""
