"""codemode-server: one MCP server in place of all the others."""

__version__ = "0.1.0"
