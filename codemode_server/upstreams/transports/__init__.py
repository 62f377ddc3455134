"""One module for each transport to upstreams; `registry.py` finds those that are here."""
