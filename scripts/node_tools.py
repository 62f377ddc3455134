"""The official MCP tools that tests/hosts runs, Inspector and conformance suite: `python -m scripts.node_tools`.

Prints the two folders with the commands that they need; where they can't be had, ends with 1 and one line that says
why. Standard library only.
"""

from __future__ import annotations

import os
import sys

from scripts.npm import Unavailable, commands_of, node_folder

TOOLS = {"@modelcontextprotocol/inspector": "2.12.0", "@modelcontextprotocol/conformance": "0.2.0-alpha.12"}

if __name__ == "__main__":
    try:
        print(commands_of("tools", TOOLS), node_folder(), sep=os.pathsep)
    except Unavailable as reason:
        sys.exit(f"node_tools: {reason}")
