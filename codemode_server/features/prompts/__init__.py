"""Prompts of upstreams, offered to the host."""
