"""What tests/hosts runs from npm: `python -m scripts.node_tools [SET]`, one of the folders in
requirements/npm: the official MCP tools, and hosts at the versions whose behaviour the tests describe.

Prints the folder with the commands of the set and the folder with Node, as a PATH; where they can't be had, ends with 1
and one line that says why. Standard library only.
"""

from __future__ import annotations

import os
import sys

from scripts.npm import Unavailable, commands_of, node_folder

if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "tools"
    try:
        print(commands_of(name), node_folder(), sep=os.pathsep)
    except Unavailable as reason:
        sys.exit(f"node_tools: {reason}")
