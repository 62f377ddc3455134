"""What a host starts: a small process that passes its messages on to the person's running server.

It starts that server if there is none. It imports the standard library and small modules of ours, neither the MCP
library nor the settings."""
