"""Features: one folder each, which the product runs without."""
