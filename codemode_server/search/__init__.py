"""Finds the tools and skills that fit a query: the ranking behind `search_tools`.

`answer` runs the steps: the ranking of `ranker_stack`, then deduplication, thresholds and the text of `results`.
Nothing here is imported before the handshake with the host, because importing numpy alone doubles its time.
"""

import os

# A query is multiplied with only a few thousand rows: BLAS threads cost more to wake than they save, and each has its
# own buffers. The BLAS library reads these variables once, when numpy is first imported.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_variable, "1")
