"""A query → the tools and skills that fit it: the ranking behind `search_tools`.

    documents   what can be found, and the texts that are ranked
    words       a text → terms; what stands for what
    wants       a query → the things that it asks for
    lexical     BM25 over weighted fields
    vectors     nearness of meaning, by any encoder
    ranking     both together: one order
    levels      which encoder there is by now
    answer      what `search_tools` says

Nothing here is imported before the host has its handshake: numpy alone takes as long as that.
"""
