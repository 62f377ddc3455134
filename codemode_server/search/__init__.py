"""Finds the tools and skills that fit a query: the ranking behind `search_tools`.

    documents      what can be found, and the texts of it that are ranked
    words          splits a text into terms
    synonyms       words that stand for others
    spelling       known words that an unknown word may mean
    subqueries     splits a query into the things that it asks for
    query_focus    the part of a want that names its thing
    actions        kinds of verbs: what a query wants done, and what a tool does
    lexical        BM25 over weighted fields
    static         nearness of meaning by a table of word vectors
    encoding/      models that compute vectors, in a process of their own
    vectors        vectors of everything that can be found
    vector_ranker  keeps the vectors of one encoder up to date
    ranking        one order by words and meaning
    usage_stats    moves up tools that are used often; `usage_store` has the records that are stored
    ranker_stack   ranks with the best level that is ready
    question       checks the arguments of `search_tools`
    deduplication  shows the same tool of several servers once
    relevance      how well a tool fits a want, by their words alone
    thresholds     leaves out weak results, and says what nothing fits
    missing_words  words of a query that no result mentions
    unavailable    servers that a query means and that can't be called
    siblings       other tools of a server that a program may need
    signatures     signatures for results, shortened
    results        results as the model reads them and as programs get them
    answer         runs all of these: the answer of `search_tools`

Nothing here is imported before the host has its handshake: numpy alone takes as long as that.
"""

import os

# One query is multiplied with a few thousand rows: threads of a BLAS library take longer to wake than that takes, and
# each has buffers of its own. It reads these once, when numpy is first imported.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_variable, "1")
