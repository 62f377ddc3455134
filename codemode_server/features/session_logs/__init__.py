"""A log of each session's programs as files in its workspace.

It hooks in as a layer of executions.
"""
