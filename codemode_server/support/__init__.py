"""Small helpers that know nothing of the product: files, JSON, text, threads."""
