"""Worker processes of our own: attempts that can be killed, and whose death harms nobody else."""
