"""The wasm backend: CPython 3.14 as a WebAssembly component, each program in a fresh instance in a worker process.

`build` makes the component from the guest's sources, `component` finds it and has it compiled for this machine once,
`worker` is the process that owns an instance, `backend` is all of it behind the contract.
"""
