"""The static check of a program before it runs: certain errors stop it, doubtful ones are warnings beside the result.

    reading      text → syntax tree, the parent of each node, and the places whose failure certainly ends the program
    names        which names and attributes are servers and tools, by the imports
    imports      imports that fail
    call_checks  each call of a tool, bound as the guest binds it (`sandbox/guest/binding.py`)
    findings     names, calls and imports
    result_types keys and attributes of results, by the types in the stubs
    preflight    all in turn, for the execution service

Whether a call gives its value or something to await is decided by the guest's own rule (`sandbox/guest/await_rule.py`).
The program is hostile and runs nowhere here: it is parsed.
"""
