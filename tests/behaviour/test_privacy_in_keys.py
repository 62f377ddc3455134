"""Keys with personal data: two keys of one person have different names for a program, and no tool receives these."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .product import PLAIN, configuration, in_memory

SERVER = (
    PLAIN
    + """
import json

server = Server("crm")

@server.tool(description="Points by address.")
def points() -> dict[str, int]:
    return {"Ann@Example.org": 1, "ann@example.org": 2, "ben@example.org": 3}

@server.tool(description="Store points.")
def store(by_address: dict[str, int]) -> str:
    open(sys.argv[1], "a").write(json.dumps(by_address) + "\\n")
    return "ok"

server.run()
"""
)
GET = "from servers.crm import points, store\nfound = points()\n"


async def test_a_call_is_refused_in_which_two_keys_would_be_one_address(tmp_path: Path) -> None:
    (tmp_path / "crm.py").write_text(SERVER)
    crm = {"command": sys.executable, "args": [str(tmp_path / "crm.py"), str(tmp_path / "stored")]}
    privacy = {"servers": {"crm": "tokens"}, "release": {"crm": ["email"]}}
    async with in_memory(configuration(tmp_path, {"crm": crm}, privacy=privacy)) as host:
        assert (await host.run(GET + "[*found]")).value == ["<EMAIL_1>", "<EMAIL_1> (2)", "<EMAIL_2>"]
        refused = (await host.run(GET + "store(found)")).text
        sent = await host.run(GET + "del found['<EMAIL_1> (2)']\nstore(found)")
    assert "crm.store" in refused
    assert "the key '<EMAIL_1> (2)' was made for a second key" in refused
    assert "so send '<EMAIL_1>' once" in refused
    assert sent.value == "ok", "the control"
    assert json.loads((tmp_path / "stored").read_text()) == {"Ann@Example.org": 1, "ben@example.org": 3}
