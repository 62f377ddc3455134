"""How well and how fast `search_tools` finds the tool: writes benchmarks/SEARCH.md."""
