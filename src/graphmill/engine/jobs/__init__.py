"""Jobs: their lives, and the driver that resumes them."""
