"""The server's instructions, which a host may show its model; part of the handshake, so nothing is imported here."""

INSTRUCTIONS = """\
Gives access to the user's MCP servers: their tools are Python functions in servers/<server>/<tool>.py.
Write ONE Python program for execute_code that calls them, filters and combines, and ends with a small summary. Only \
the program's output and final value are returned; everything else stays in the sandbox.
The description of execute_code lists the servers and tools, as far as they are known and fit; search_tools finds \
the others, with all that a program needs to call them."""
