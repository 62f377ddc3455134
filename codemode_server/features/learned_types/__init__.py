"""Result types that are observed in calls and shown in stubs.

It hooks in as a subscriber of ended calls, and the catalog asks it for types.
"""
