"""Prompts of upstreams, offered to the host.

It hooks in at `prompts/list` and `prompts/get` of the MCP server; a prompt is got as a direct call is.
"""
