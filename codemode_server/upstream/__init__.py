"""The servers behind us: connected, kept, listed and called, each for itself.

`pool` has them all and is what the rest of the product sees. `connection` is one of them: an owner task that connects,
lists and connects again. `stdio` and `http` carry its messages, `reaper` sees to it that no process outlives us,
`results` makes values of what tools answer, `cache` says what is kept until the next run.

Nothing here imports mcp before the first connection: the host's handshake goes first.
"""
