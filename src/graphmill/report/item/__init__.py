"""One item of a run for the reader: its page, its steps as a tree, and what was said to models."""
