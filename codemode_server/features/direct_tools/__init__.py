"""Upstream tools offered to the host beside the four meta tools.

It hooks in beside the four in `mcp_server/tools`; a call is an execution without a program (`executions/direct_calls`).
"""
