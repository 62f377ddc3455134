"""What sessions have read, and rules on where it may go.

It hooks in as a layer of calls (`call_layer`), a layer of executions (`followed_programs`) and a subscriber of calls
(`read_sources`).
"""
