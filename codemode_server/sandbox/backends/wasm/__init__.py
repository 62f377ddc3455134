"""The wasm backend: CPython 3.14 as a WebAssembly component, each program in a fresh instance in a worker process.

`build` makes the component from the guest's sources, `component` finds it and compiles it for this machine once,
`worker` runs in the process that owns an instance, `process` is the host's end of that process, and `backend`
implements the contract with a pool of them.
"""
