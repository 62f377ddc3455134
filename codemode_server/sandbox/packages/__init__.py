"""Packages that programs can import: the person lists them in `sandbox.packages`, and nothing of them runs on the host.

`installed` describes what there is. It imports nothing heavy; without `sandbox.packages` nothing else of this folder is
imported.
"""
