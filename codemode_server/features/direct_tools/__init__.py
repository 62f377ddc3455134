"""Upstream tools offered to the host beside the four meta tools."""
