"""One run of a program, from the request that starts it to its settled record.

An execution has a life of its own: a request of the host starts it, waits on it and may cancel it, but does not hold
it up on its own stack.
"""
