"""FastMCP's CodeMode before the servers of a JSON file, over stdio; runs with FastMCP's own interpreter.

`mode="legacy"`: by default its client shows no tool of server-filesystem, and says nothing about it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy

main = FastMCP("tools", transforms=[CodeMode()])
for name, entry in json.loads(Path(sys.argv[1]).read_text()).items():
    main.mount(create_proxy({"mcpServers": {name: entry}}, mode="legacy"), namespace=name)
main.run(transport="stdio", show_banner=False)
