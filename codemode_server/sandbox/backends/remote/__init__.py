"""The remote backend: programs run in the sandboxes of other machines, the nodes.

A node (`codemode-server node`) offers its own sandboxes on a TCP port and holds no secrets: it passes the frames of a
program on, unread, and the replica answers them with its `Channel`. `link` is one connection, for one program. `node`
is the end of the node, and `backend` implements the contract in the replica.

    replica → node    the token, as the first message; then a request:
                      {version, program: null}                  how it is; answered by {…}, see `NodeState`
                      {version, program: {…}, …}                answered by {ready, …} or {refused, …}
                      data                                      frames of the host, the program first
                      {}                                        end the program
    node → replica    data                                      frames of the guest
                      {ending, error}                           after the end, what the node knows of it: see `Ended`

Until the replica has sent the program, nothing has happened, and another node may be tried; never after that.
"""
