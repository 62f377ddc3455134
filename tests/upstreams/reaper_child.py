"""Stands for the product in the tests of the reaper: connects to `raw.py stubborn FILE`, says so, and waits.

reaper_child.py FILE [close]     `close`: leave by itself
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from codemode_server.config.settings import ServerSettings
from codemode_server.upstreams.pool import UpstreamPool
from tests.upstreams.kit import MemoryListingCache


async def main() -> None:
    server = Path(__file__).parent / "servers" / "raw.py"
    settings = ServerSettings(command=sys.executable, args=(str(server), "stubborn", sys.argv[1]), protocol="legacy")
    async with UpstreamPool({"s": settings}, MemoryListingCache()).open() as pool:
        pool.connect()
        assert await pool.wait_settled(20)
        print(pool._reaper.pid, flush=True)
        if "close" not in sys.argv:
            await anyio.sleep_forever()


anyio.run(main)
