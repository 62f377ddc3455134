"""A query → the tools and skills that fit it: the ranking behind `search_tools`.

    documents   what can be found, and the texts that are ranked
    words       a text → terms; what stands for what
    languages   a query in another language → its commonest words in English
    named       what a query names outright
    wants       a query → the things that it asks for
    subject     what a want is about
    actions     what is to be done, and what does it
    spelling    what a word that nobody has may mean
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

import os

# One query is multiplied with a few thousand rows: threads of a BLAS library take longer to wake than that takes, and
# each has buffers of its own. It reads these once, when numpy is first imported.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_variable, "1")
