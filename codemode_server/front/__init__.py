"""What the host talks to: an MCP server with four meta-tools, whatever the number of tools behind them."""
