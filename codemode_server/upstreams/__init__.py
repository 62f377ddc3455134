"""Upstream MCP servers: each is connected, listed, called and restarted independently of the others.

`pool` has them all and is what the rest of the product sees. `connection` is one of them: an owner task that connects,
lists and connects again. `stdio` and `http` carry its messages, `reaper` sees to it that no process outlives us,
`results` turns tools' answers into values, `cache` defines what is stored for the next run.

Nothing here imports mcp before the first connection: the host's handshake goes first.
"""
