"""What a host starts: a small process that passes its messages on to the person's running server.

It starts that server if there is none. It imports neither the MCP library nor the settings."""
