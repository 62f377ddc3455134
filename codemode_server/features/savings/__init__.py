"""Tokens that programs kept out of the model's context.

It hooks in as a subscriber of calls (`direct_tokens`) and where the MCP server has answered (`exchanges`).
"""
