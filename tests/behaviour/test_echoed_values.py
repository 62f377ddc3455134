"""A tool that receives a value for a token answers with it often; a program that sees tokens gets the token there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from .product import configuration, in_memory

pytestmark = pytest.mark.slow

SERVER = """
import base64, html, sys
from typing import Any
from urllib.parse import quote
import mcp_types
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("one")

@server.tool()
def get() -> dict[str, str]:
    "A record."
    return {"full_name": "Annabel Leary", "email": "Annabel.Leary@corp.example", "phone": "+49 30 901820"}

@server.tool()
def create(fields: dict[str, Any]) -> dict[str, Any]:
    "Answers with what it has stored."
    email, phone = str(fields.get("email")), str(fields.get("phone"))
    return {
        "id": 7, "stored": fields, "by_email": {email.lower(): 1}, "phone": phone.replace(" ", ""),
        "log": f"created {email.lower()}", "owner": "carol.danvers@new.example",
    }

@server.tool()
def fail(fields: dict[str, Any]) -> str:
    "Fails."
    raise ToolError(f"there is {fields['email']} already")

@server.tool(structured_output=False)
def receipt(text: str, form: str) -> mcp_types.CallToolResult:
    "What was sent, in a text, a link, HTML or in a file."
    shown = {"text": text, "link": f"https://x.example/?to={quote(text)}", "html": f"<p>{html.escape(text)}</p>"}
    held = base64.b64encode(text.encode()).decode()
    if form != "file":
        block = mcp_types.TextContent(type="text", text=shown[form])
    else:
        file = mcp_types.BlobResourceContents(uri="mail://receipt", mime_type="text/plain", blob=held)
        block = mcp_types.EmbeddedResource(type="resource", resource=file)
    return mcp_types.CallToolResult(content=[block])

@server.tool()
def status(fields: dict[str, Any]) -> dict[str, Any]:
    "How it went."
    return {"status": "ok", "message_id": 7, "text": "it will be marked"}

server.run("stdio")
"""
STORED = "import servers.crm, servers.mail\nrow = servers.crm.get()\nfound = servers.mail.create(fields=row)\n"
KINDS = ["email", "name", "phone"]


def with_echo(folder: Path, protected: tuple[str, ...] = ("crm",), **privacy: Any) -> Path:
    script = folder / "server.py"
    script.write_text(SERVER)
    server = {"command": sys.executable, "args": [str(script)]}
    given = {"servers": dict.fromkeys(protected, "tokens"), "release": {"mail": KINDS}, **privacy}
    return configuration(folder, {"crm": server, "mail": server}, privacy=given)


@pytest.mark.parametrize("protected", [("crm",), ("crm", "mail")])
async def test_the_program_gets_the_tokens_that_it_has_sent(tmp_path: Path, protected: tuple[str, ...]) -> None:
    async with in_memory(with_echo(tmp_path, protected)) as host:
        code = (
            STORED + "[found['stored'] == row, [*found['by_email']] == [row['email']], found['phone'] == row['phone']]"
        )
        assert (await host.run(code)).value == [True, True, True]
        spelled = STORED + "[[ord(c) for c in it] for it in (found['log'], found['stored']['full_name'])]"
        log, name = (await host.run(spelled)).value
        assert "".join(map(chr, log)) == "created <EMAIL_1>"
        assert "".join(map(chr, name)) == "<NAME_1>"


async def test_what_the_call_has_not_sent_stays_as_it_is_in_an_answer_of_a_server_that_is_not_protected(
    tmp_path: Path,
) -> None:
    async with in_memory(with_echo(tmp_path)) as host:
        assert (await host.run(STORED + "found['owner'][:6], found['id']")).value == ["carol.", 7]
        plain = "import servers.mail\nservers.mail.create(fields={'email': 'eve@plain.example'})['log'][:12]"
        assert (await host.run(plain)).value == "created eve@"


@pytest.mark.parametrize("form", ["text", "link", "html", "file"])
@pytest.mark.parametrize("protected", [("crm",), ("crm", "mail")])
async def test_a_receipt_has_the_tokens_in_whatever_form(tmp_path: Path, protected: tuple[str, ...], form: str) -> None:
    code = (
        "import servers.crm, servers.mail\nrow = servers.crm.get()\n"
        f"found = servers.mail.receipt(text=row['email'] + ', ' + row['full_name'] + '!', form={form!r})\n"
        "text = getattr(found, 'text', found)\n"
        "[ord(c) for c in text]"
    )
    async with in_memory(with_echo(tmp_path, protected)) as host:
        text = "".join(map(chr, (await host.run(code)).value))
    assert "<EMAIL_1>" in text
    assert "<NAME_1>" in text
    assert "nnabel" not in text


@pytest.mark.parametrize("name", ["Status", "Message Id", "Will"])
async def test_a_name_of_ordinary_words_is_no_key_of_the_answer(tmp_path: Path, name: str) -> None:
    script = with_echo(tmp_path)
    (tmp_path / "server.py").write_text(SERVER.replace("Annabel Leary", name))
    code = (
        "import servers.crm, servers.mail\nrow = servers.crm.get()\n"
        "found = servers.mail.status(fields=row)\n"
        "[row['full_name'] == '<NAME_1>', found['status'], found['message_id'], found['text'][:7] == 'it will']"
    )
    async with in_memory(script) as host:
        assert (await host.run(code)).value == [True, "ok", 7, True]


async def test_an_error_has_the_token_too(tmp_path: Path) -> None:
    code = (
        "import servers.crm, servers.mail\ntry:\n    servers.mail.fail(fields=servers.crm.get())\n"
        "except Exception as error:\n    text = str(error)\n[ord(c) for c in text]"
    )
    async with in_memory(with_echo(tmp_path)) as host:
        text = "".join(map(chr, (await host.run(code)).value))
    assert "there is <EMAIL_1> already" in text
