"""The MCP server that hosts connect to, with its four meta-tools, however many tools are behind them."""
