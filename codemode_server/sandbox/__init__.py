"""The sandbox: runs programs, whose only access to the outside is the `HostApi`.

`contract` is what every backend implements, `backends/` has them. `guest` runs inside the sandbox and exchanges the
frames of `frames` with the host. `channel` runs one program on the host's side: it answers the guest's requests
through a `HostApi`, enforces the limits (`clock` counts time) and ends with an `Outcome`. `backend_selection` picks
the backend. This package knows nothing about tools, policies or MCP.
"""
