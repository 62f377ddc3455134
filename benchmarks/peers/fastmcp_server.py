"""FastMCP's `CodeMode` over the benchmark's upstream; runs in the peers' environment as `fastmcp_server.py CONFIG`."""

import json
import sys
from pathlib import Path

from fastmcp.experimental.transforms.code_mode import CodeMode  # type: ignore[import-not-found, unused-ignore]
from fastmcp.server import create_proxy  # type: ignore[import-not-found, unused-ignore]

server = create_proxy(json.loads(Path(sys.argv[1]).read_text()), name="peer")
server.add_transform(CodeMode(max_tool_calls=None))
server.run(transport="stdio", show_banner=False)
