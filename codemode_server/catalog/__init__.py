"""What tools exist: the read path, from upstream listings to files that a model lists, reads, searches and imports.

    naming           upstream names ↔ legal, unique Python names
    untrusted        upstream text made safe for one line, a docstring or a literal
    json_schema      defensive reading of JSON Schema: references, allOf, kinds
    schema_types     JSON Schema → Python types
    parameters       an input schema → the parameters of a function
    shapes           what JSON values look like: kinds and names of fields, never a value
    observed         what is known of a tool's results from its calls
    returns          the type of a result: declared, else observed
    schema_mismatch  where a result contradicts its type
    stubs            one tool → the source of its module
    catalog          the immutable snapshot of servers and tools
    tree             what `list_dir` and `read_tool` show of it
    sync             the same tree as files, for people and editors

Everything but `sync` is pure. Names, descriptions and schemas come from upstreams and are believed in nothing.
"""
