"""The remote backend: programs run in the sandboxes of other machines, the nodes.

A node (`codemode-server node`) passes the frames of a program on, unread; the replica answers them with its `Channel`.
`link` is one connection, for one program, `node` its end at the node, and `backend` implements the contract.

    replica → node    the token; then a `Request`: how is it, or may a program come?
    node → replica    its `NodeState`; for a program, what follows depends on its `problem`
    replica → node    data: the frames of the host, the program first; perhaps an empty message: end it
    node → replica    data: the frames of the guest; then `Ended`

Once the replica has sent the program it may have begun, so no other node is tried, unless `Ended` says that it has not.
"""
