"""The one way to an upstream: decide, check, record, send, record the outcome.

Only `targets` calls the upstreams; `tests/test_architecture.py` checks that.
"""
