"""What one of several hosts may send to the running server."""

from __future__ import annotations

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from codemode_server.mcp_server.socket_streams import _MAX_UNANSWERED, SocketLines


class Host(ByteStream):
    """Sends one line after the other, and takes answers once it wants to."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self.reads = anyio.Event()

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        await anyio.lowlevel.checkpoint()
        if not self._lines:
            raise anyio.EndOfStream
        self._lines -= 1
        return b"{}\n"

    async def send(self, item: bytes) -> None:
        await self.reads.wait()

    async def send_eof(self) -> None: ...

    async def aclose(self) -> None: ...


async def test_of_a_host_that_takes_no_answers_no_more_than_a_thousand_lines_are_read_until_it_does() -> None:
    host, received = Host(3_000), list[str]()
    lines = SocketLines(host)

    async def receive() -> None:
        async for line in lines:
            received.append(line)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lines.write, "{}\n")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(receive)
        while len(received) < _MAX_UNANSWERED:
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        assert len(received) == _MAX_UNANSWERED
        host.reads.set()
    assert len(received) == 3_000, "one that takes its answers is read to the end"
