"""How well and how fast `search_tools` finds the tool: writes benchmarks/SEARCH.md."""

import codemode_server.search  # noqa: F401 - limits the threads of BLAS, before numpy is imported
