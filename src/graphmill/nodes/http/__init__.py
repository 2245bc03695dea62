"""The http node: one request, with values that are data wherever they stand, and answers of which none is taken for more than it is."""
