"""Files and base64 in answers of a protected server: a text in any encoding reaches the program with tokens."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from .product import configuration, in_memory

pytestmark = pytest.mark.slow

TABLE = "full_name,email\nAnn Müller,ann.lee@example.org\nBob Ray,bob.ray@example.org\n"
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00").decode()
SERVER = """
import json, sys
RESULTS = json.loads(sys.argv[1])
def answer(number, result):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}) + "\\n")
    sys.stdout.flush()
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        answer(message["id"], {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {}},
               "serverInfo": {"name": "files", "version": "1"}})
    elif method == "tools/list":
        answer(message["id"], {"tools": [{"name": name, "description": "Get.", "inputSchema": {"type": "object"}}
               for name in RESULTS]})
    elif method == "tools/call":
        answer(message["id"], {"content": RESULTS[message["params"]["name"]]})
    elif method == "resources/read":
        uri = message["params"]["uri"]
        open(sys.argv[2], "a").write(uri + "\\n")
        answer(message["id"], {"contents": [{"uri": uri, "text": "read " + uri}]})
    elif "id" in message:
        answer(message["id"], {})
"""
READ = "from servers.files import get\ndata = get().data\nprint(data.decode({encoding!r}))"
READ_RAW = (
    "import base64\nfrom servers.files import get\n"
    "data = base64.b64decode(get.raw()['content'][0]['resource']['blob'])\nprint(data.decode({encoding!r}))"
)


def files(folder: Path, *blocks: Any, mode: str | None = "tokens") -> Path:
    script = folder / "files.py"
    script.write_text(SERVER)
    server = {"command": sys.executable, "args": [str(script), json.dumps({"get": blocks}), str(folder / "read.log")]}
    return configuration(folder, {"files": server}, **({"privacy": {"servers": {"files": mode}}} if mode else {}))


def file(data: str, mime_type: str = "text/csv") -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "f:///a.csv", "mimeType": mime_type, "blob": data}}


def encoded(encoding: str) -> str:
    return base64.b64encode(TABLE.encode(encoding)).decode()


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize("code", [READ, READ_RAW], ids=["file", "raw"])
async def test_a_text_file_in_any_encoding_has_tokens(tmp_path: Path, encoding: str, code: str, is_on: bool) -> None:
    """Without the section, the control, it has the values."""
    async with in_memory(files(tmp_path, file(encoded(encoding)), mode="tokens" if is_on else None)) as host:
        answer = await host.run(code.format(encoding=encoding))
        assert ("<NAME_1>,<EMAIL_1>" in answer.text) is is_on
        assert ("ann.lee@example.org" in answer.text) is not is_on


async def test_a_text_file_in_another_encoding_is_refused_too(tmp_path: Path) -> None:
    async with in_memory(files(tmp_path, file(encoded("utf-16")), mode="block")) as host:
        assert "its result is withheld: it has personal data" in (await host.run(READ.format(encoding="utf-16"))).text


async def test_what_is_no_base64_is_searched_as_the_text_that_it_is(tmp_path: Path) -> None:
    block = {"type": "text", "text": "hi", "data": "to Ann: ann.lee@example.org"}
    async with in_memory(files(tmp_path, block)) as host:
        answer = await host.run("from servers.files import get\nget.raw()['content'][0]['data']")
        assert answer.value == "to Ann: <EMAIL_1>"


async def test_files_stay_in_their_places_beside_fields_that_are_null(tmp_path: Path) -> None:
    blocks = ({"type": "note", "data": None, "text": "x"}, {"type": "image", "mimeType": "image/png", "data": PICTURE})
    code = "from servers.files import get\n[block['data'] for block in get.raw()['content']]"
    async with in_memory(files(tmp_path, *blocks)) as host:
        assert (await host.run(code)).value == [None, PICTURE]


async def test_base64_in_a_field_is_searched_as_the_file_that_it_is(tmp_path: Path) -> None:
    """As an API of repositories answers with the content of a file."""
    text = json.dumps({"name": "people.csv", "encoding": "base64", "content": encoded("utf-8")})
    code = "import base64\nfrom servers.files import get\nbase64.b64decode(get()['content']).decode()"
    async with in_memory(files(tmp_path, {"type": "text", "text": text})) as host:
        assert (await host.run(code)).value == "full_name,email\n<NAME_1>,<EMAIL_1>\n<NAME_2>,<EMAIL_2>\n"
