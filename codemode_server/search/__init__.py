"""Finds the tools and skills that fit a query: the ranking behind `search_tools`.

    documents      tools and skills as documents with text fields
    words          tokenizer, stemmer and synonyms
    spelling       corrections for words that no document contains
    subqueries     splits a query into the tasks that it asks for
    actions        classes of verbs: what a query asks to do, what a tool does
    lexical        BM25 over weighted fields
    static         sentence vectors from a table of word vectors
    semantic       sentence vectors by a model in a separate process, whose program is `encoder_worker`
    vectors        vectors of all documents by one encoder
    vector_ranker  loads one encoder and keeps its vectors up to date
    ranking        combines lexical and vector scores
    usage_stats    boosts tools that are used often; `usage_store` is the storage contract
    ranker_stack   ranks with the best ranker that is ready
    deduplication  groups equivalent tools of several servers
    relevance      drops weak results and reports subqueries without a match
    signatures     shortened signatures for results
    results        formats results as text for the model and as JSON for programs
    answer         runs the steps above: the answer of `search_tools`

Nothing here is imported before the handshake with the host, because importing numpy alone doubles its time.
"""

import os

# A query is multiplied with only a few thousand rows: BLAS threads cost more to wake than they save, and each has its
# own buffers. The BLAS library reads these variables once, when numpy is first imported.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_variable, "1")
