"""The one way to an upstream: decide, check, record, send, record the outcome.

`targets` has the only callers of the upstreams in the whole product; `tests/test_architecture.py`
keeps it so.
"""
