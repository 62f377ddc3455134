"""Code that runs inside a sandbox: the program's runner, its stubs and its link to the host.

Standard library only, and nothing of codemode_server: the folder is copied into the sandbox as the package
`codemode_guest`. It is built for CPython 3.14. `wasi` and `app` are for a sandbox
without threads; everything else is the same for every backend. `binding`, `await_rule`, `scopes`, `advice` and
`similar_names` are pure, and the host's static check uses them too.

Nothing here protects the host. A program can reach all of it, replace it, and write any frame; the host believes none.
"""
