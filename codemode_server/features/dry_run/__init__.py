"""Runs of a program that send no call that acts, and report what it would have sent.

It hooks in as a layer of calls (`call_layer`) and a layer of executions (`dry_runs`).
"""
