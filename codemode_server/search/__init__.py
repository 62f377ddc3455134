"""A query → the tools and skills that fit it: the ranking behind `search_tools`.

    documents   what can be found, and the texts that are ranked
    words       a text → terms; what stands for what
    wants       a query → the things that it asks for
    lexical     BM25 over weighted fields
    vectors     nearness of meaning, by any encoder
    ranking     both together: one order
    levels      which encoder there is by now
    question    the arguments of `search_tools`, checked
    folding     tools that several servers offer alike
    cutting     what is worth showing, and whether anything fits
    results     the texts and records that come of it
    answer      all of these in their order: what `search_tools` says

Nothing here is imported before the host has its handshake: numpy alone takes as long as that.
"""
