"""What tests/hosts runs from npm: `python -m scripts.node_tools [SET]`, one of the sets below.

Prints the folder with the commands of the set and the folder with Node, as a PATH; where they can't be had, ends with 1
and one line that says why. Standard library only.
"""

from __future__ import annotations

import os
import sys

from scripts.npm import Unavailable, commands_of, node_folder

SETS = {
    "tools": {"@modelcontextprotocol/inspector": "2.12.0", "@modelcontextprotocol/conformance": "0.2.0-alpha.12"},
    "claude-code": {"@anthropic-ai/claude-code": "2.1.330"},
    "codex": {"@openai/codex": "0.169.0"},
    "gemini-cli": {"@google/gemini-cli": "0.61.0"},
    "opencode": {"opencode-ai": "1.18.33"},
}
"""The official MCP tools, and hosts at the versions whose behaviour the tests describe."""

if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "tools"
    try:
        print(commands_of(name, SETS[name]), node_folder(), sep=os.pathsep)
    except Unavailable as reason:
        sys.exit(f"node_tools: {reason}")
