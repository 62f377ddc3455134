"""The catalog of tools: from upstream listings to the stub files that a model lists, reads, searches and imports.

    naming           maps upstream names to legal, unique Python names
    untrusted        makes upstream text safe for one line, a docstring or a literal
    json_schema      reads untrusted JSON Schema: references, allOf, kinds, parameters
    schema_types     converts JSON Schema to Python types
    shapes           describes JSON values by kinds and field names, never by their content
    observed         what the calls of a tool revealed about its results
    returns          the type of a result: declared, else observed
    stubs            generates the source of a tool's module
    catalog          the immutable snapshot of servers and tools
    tree             formats the catalog for `list_dir` and `read_tool`
    sync             writes the same tree as files, for people and editors

Everything but `sync` is pure. Names, descriptions and schemas come from upstreams and are untrusted.
"""
