"""Small MCP servers over the engines of published benchmarks, run by an environment that has those installed."""
