"""What a run has come to: the report and how it reads."""
