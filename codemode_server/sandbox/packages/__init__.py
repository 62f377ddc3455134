"""Packages that programs can import: the person lists them in `sandbox.packages`, and none of their code runs on the
host.

`installed` has the types and imports nothing heavy. The other modules are only imported if packages are listed.
"""
