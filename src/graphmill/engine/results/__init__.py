"""Results: recorded, counted, shown and handed out."""
