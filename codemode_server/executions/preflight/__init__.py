"""The check of a program before anything of it runs: what would surely fail stops it, what is doubtful is told beside
the result.

    reading     text → syntax tree, and who is whose parent
    naming      which names and attributes are servers and tools, by the imports
    calling     each call of a tool as the guest binds it
    fates       whether a failure would be caught, or its line never reached
    findings    the four of them together: our own part, exact and without a process
    document    the program and the types of its tools as one text for the type checker
    checker     the type checker: a process kept warm, and bounded
    diagnostics what it says, as far as it is about tools
    preflight   both parts in turn, for the executor

The program is hostile and runs nowhere here: it is parsed, and the type checker, a process of its own, reads it.
"""
