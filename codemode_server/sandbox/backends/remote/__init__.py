"""The remote backend: programs run in the sandboxes of other machines, the nodes.

A node (`codemode-server node`) passes the frames of a program on, unread; the replica answers them with its `Channel`.
`link` is one connection, for one program, `node` its end at the node, and `backend` implements the contract.

    replica → node    the token; then a `Request` for the node's state, or to run a program
    node → replica    its `NodeState`; if the request was for a program and has no `problem`, the program follows:
    replica → node    data: the frames of the host, the program first; an empty message ends the program early
    node → replica    data: the frames of the guest; then a `ProgramEnd`

Once the replica has sent the program, it may have begun. So another node is tried only if `ProgramEnd` says that it has
not.
"""
