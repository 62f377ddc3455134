"""Sign-ins that are offered to the person while a call waits.

It hooks in as a layer of calls (`call_layer`).
"""
