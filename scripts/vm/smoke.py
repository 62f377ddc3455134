"""Boots one real microVM and lets it call this machine: `scripts/vm/run -- .venv/bin/python scripts/vm/smoke.py`."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from microsandbox import Network, Sandbox

PORT = 5000
GUEST = f"""
import socket
line = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
line.connect((2, {PORT}))
line.sendall(b"ping\\n")
print(line.recv(64).decode())
"""


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"pong to " + await reader.readline())
    await writer.drain()
    writer.close()


async def main() -> bool:
    """Whether the microVM came up and heard its answer."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "smoke.sock"
        server = await asyncio.start_unix_server(_answer, path)
        begun = time.monotonic()
        box = await Sandbox.create(
            f"smoke-{os.getpid()}-{time.time_ns()}",
            image=os.environ["CODEMODE_VM_IMAGE"],
            memory=256,
            cpus=1,
            network=Network.none(),
            vsock={str(path): PORT},
            ephemeral=True,
        )
        booted = time.monotonic()
        done = await box.exec("python3", ["-c", GUEST], timeout=120)
        called = time.monotonic()
        await box.stop()
        server.close()
    well = done.stdout_text.strip() == "pong to ping"
    print(
        f"vm: {os.environ['CODEMODE_VM']}: a microVM booted in {booted - begun:.1f} s and "
        + (
            f"called back in {called - booted:.1f} s"
            if well
            else f"did not call back: {done.stdout_text}{done.stderr_text}"
        ),
        flush=True,
    )
    return well


if __name__ == "__main__":
    sys.exit(not asyncio.run(main()))
