"""Mail and links of a protected server have personal data in escaped form; programs and the model get tokens there."""

from __future__ import annotations

import sys
from pathlib import Path

from .product import configuration, in_memory

SERVER = """
from mcp.server import MCPServer

server = MCPServer("mailbox")

@server.tool()
def get() -> dict[str, str]:
    "A message."
    return {
        "html": "<p>Dear&nbsp;all, write to <a href='mailto:carol.danvers%40corp.example'>Carol</a> or"
        " dora.milaje&#64;corp.example, not to <a href='https://example.com/a%20b'>us</a>.</p>",
        "text": "eve%40corp.example",
    }

@server.tool()
def send(to: str) -> str:
    "Says how long the address is and how it begins."
    return f"{len(to)} {[ord(one) for one in to[:5]]}"

server.run("stdio")
"""


async def test_escaped_addresses_are_tokens_in_the_program_and_plain_values_in_the_tool_that_may_have_them(
    tmp_path: Path,
) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    server = {"command": sys.executable, "args": [str(script)]}
    privacy = {"servers": {"mailbox": "tokens"}, "release": {"outbox": ["email"]}}
    read = "import servers.mailbox, servers.outbox\nmail = servers.mailbox.get()\n"
    async with in_memory(configuration(tmp_path, {"mailbox": server, "outbox": server}, privacy=privacy)) as host:
        shown = (await host.run(read + "mail")).value
        spelled = (await host.run(read + "[ord(one) for one in mail['text']]")).value
        sent = (await host.run(read + "servers.outbox.send(to=mail['text'])")).value
    assert shown == {
        "html": "<p>Dear&nbsp;all, write to <a href='mailto:<EMAIL_1>'>Carol</a> or"
        " <EMAIL_2>, not to <a href='https://example.com/a%20b'>us</a>.</p>",
        "text": "<EMAIL_3>",
    }
    assert "".join(map(chr, spelled)) == "<EMAIL_3>"
    assert sent == f"{len('eve@corp.example')} {[*map(ord, 'eve@c')]}"
