"""The catalog of tools: from upstream listings to the stub files that a model lists, reads, searches and imports.

Everything but `sync` is pure. Names, descriptions and schemas come from upstreams and are untrusted.
"""
