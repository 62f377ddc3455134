"""Learned types against real servers: the servers' world, calls and tasks on it, and what stubs tell of results."""
