"""Tokens that programs kept out of the model's context."""
