"""How many tokens a server may use up: what does not fit is withheld as a whole, and leaves room for the others.

The servers, the product and the command of the person are real.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import anyio.to_thread
import pytest

from codemode_server.cli import run
from tests.cli.pseudo_terminal import at_terminal

from .product import PLAIN, configuration, in_memory

SERVER = (
    PLAIN
    + """
server = Server(sys.argv[1])

@server.tool(description="Customers.")
def many(start: int, count: int, length: int = 0) -> list[dict[str, str]]:
    return [{"email": f"p{number:0{length}}@example.org"} for number in range(start, start + count)]

server.run()
"""
)
MORE = "from servers.hr import many\n[len(many(1000, 30)), many(1000, 30)[-1]]"


def product(folder: Path, **bounds: int) -> Path:
    script = folder / "people.py"
    script.write_text(SERVER)
    servers = {name: {"command": sys.executable, "args": [str(script), name]} for name in ("crm", "hr")}
    return configuration(folder, servers, privacy={"servers": {"*": "tokens"}, **bounds})


async def test_a_too_large_result_leaves_room_for_others_and_its_message_says_what_makes_room(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = product(tmp_path, max_tokens=100)
    async with in_memory(path) as host:
        assert (await host.run(MORE)).value == [30, {"email": "<EMAIL_30>"}], "the control: it fits"
        refused = (await host.run("from servers.hr import many\nmany(0, 150)")).text
        assert "hr.many was called, and its result is withheld: 150 of its values need new privacy tokens" in refused
        assert "hr may get 20 more: it has 30, other servers have 0" in refused
        assert "@example.org" not in refused
        other = await host.run("from servers.crm import many\nmany(0, 35)[-1]")
        assert other.value == {"email": "<EMAIL_65>"}, "the other server has its share, and no number was used up"
        assert "hr may get 3 more" in (await host.run("from servers.hr import many\nmany(0, 150)")).text
        assert await anyio.to_thread.run_sync(run, ["privacy", "list", "--server", "hr", "--config", str(path)]) == 0
        listed = capfd.readouterr().out
        assert re.findall(r"^(<EMAIL_\d+>)  email of hr, ", listed, re.MULTILINE)[::29] == ["<EMAIL_1>", "<EMAIL_30>"]
        assert "crm" not in listed
        advised = re.search(r"`codemode-server (privacy forget --server )NAME`", refused)
        assert advised is not None
        forget = [sys.executable, "-m", "codemode_server", *advised[1].split(), "hr", "--config", str(path)]
        await anyio.to_thread.run_sync(at_terminal, forget)
        assert (await host.run(MORE)).value == [30, {"email": "<EMAIL_95>"}]
