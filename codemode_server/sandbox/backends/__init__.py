"""One module or package for each sandbox backend; `sandbox/registry.py` finds those that are here."""
