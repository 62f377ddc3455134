"""The one door for every call: check, record, forward, settle.

`gateway.Gateway.call` is the only caller of `Upstreams.call_tool` in the whole product; `tests/test_architecture.py`
keeps it so.
"""
