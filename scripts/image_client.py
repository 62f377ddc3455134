"""Is a client of the container that `scripts/image.sh` has started: python -m scripts.image_client PORT FOLDER NAME.

Without the token it is refused; with it, a program runs in the sandbox that was compiled when the image was built.
"""

from __future__ import annotations

import subprocess
import sys
import time

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

_START_S = 60.0
_MOST_S = 10.0
"""For the first program; compiling the sandbox takes longer."""
_TOKEN = "/data/codemode-server/http-token"


async def main(port: str, folder: str, container: str) -> None:
    address = f"http://127.0.0.1:{port}/mcp"
    async with httpx2.AsyncClient(trust_env=False) as http:
        with anyio.fail_after(_START_S):
            while (status := await _status(http, address)) is None:  # noqa: ASYNC110 - nothing tells when it listens
                await anyio.sleep(0.2)
    print("without the token:", status)
    buildah = ["buildah", "--root", f"{folder}/store", "--runroot", f"{folder}/run"]
    command = [*buildah, "run", "--user", "10001", container, "--", "sh", "-c", f"id -u; cat {_TOKEN}"]
    done = await anyio.run_process(command, stderr=subprocess.DEVNULL)
    user, token = done.stdout.decode().split()
    print("user:", user)
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        began = time.monotonic()
        code = "open('/workspace/a', 'w').write('kept')\nimport sys\nsys.platform, open('/workspace/a').read()"
        answer = await client.call_tool("execute_code", {"code": code}, read_timeout_seconds=100)
        seconds = time.monotonic() - began
    text = "\n".join(getattr(block, "text", "") for block in answer.content)
    print("with the token:", text, f"({seconds:.1f} s)", sep="\n")
    if (status, user) != (401, "10001") or '["wasi","kept"]' not in text or seconds > _MOST_S:
        sys.exit("the container does not serve as it should")


async def _status(http: httpx2.AsyncClient, address: str) -> int | None:
    try:
        return (await http.get(address)).status_code
    except httpx2.TransportError:
        return None


if __name__ == "__main__":
    _port, _folder, _container = sys.argv[1:]
    anyio.run(main, _port, _folder, _container)
