"""The sandbox: where a program runs, and the one way it has out.

`backend` is the contract that every technology keeps; `wasm` is the one there is. `guest` is what runs inside; it and
the host speak the frames of `frames`. `channel` drives one program on the host's side: it answers the guest's requests
through a `Door`, counts against the limits (`clock` counts time) and ends with an `Outcome`. `ladder` picks the
backend. Nothing here knows tools, policies or MCP.
"""
