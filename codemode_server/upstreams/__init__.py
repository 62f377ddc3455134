"""Upstream MCP servers: each is connected, listed, called and restarted independently of the others.

The rest of the product uses `pool`. `connection` is one upstream: an owner task that connects, lists and reconnects.
`transports/` carry its messages, `results` converts answers to values, and `cache` defines what is stored for the next
run.

Nothing here imports mcp before the first connection: the host's handshake goes first.
"""
