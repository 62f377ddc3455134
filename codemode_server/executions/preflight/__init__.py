"""The static check of a program before it runs: certain errors stop it, doubtful ones are warnings beside the result.

    reading         text → syntax tree, and who is whose parent
    name_checks     which names and attributes are servers and tools, by the imports
    call_checks     each call of a tool, bound as the guest binds it (`sandbox/guest/binding.py`)
    exception_flow  whether a failure would be caught, or its line never reached
    findings        the four of them together: our own part, exact and without a process
    document        the program and the types of its tools as one text for the type checker
    checker         the type checker: a process kept warm, and bounded
    diagnostics     what it says, as far as it is about tools
    preflight       both parts in turn, for the execution service

Whether a call gives its value or something to await is decided by the guest's own rule (`sandbox/guest/await_rule.py`).
The program is hostile and runs nowhere here: it is parsed, and the type checker, a process of its own, reads it.
"""
