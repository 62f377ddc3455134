"""The meta-tools, one module each, and their registry."""
