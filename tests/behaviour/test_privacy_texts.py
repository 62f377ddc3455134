"""Personal data in texts and files of protected servers, through the whole product: by their form, as values that have
a token already, and names that a recognizer finds. A small model of spaCy that knows two names stands for a large one.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.privacy.spacy_kit import FAILS, FINDS, install, needs_spacy

from .product import configuration, in_memory

pytestmark = pytest.mark.slow

TABLE = "full_name,email\nAnn Müller,ann.lee@example.org\nBob Ray,bob.ray@example.org\n"
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


def answering(folder: Path, **blocks: Any) -> dict[str, Any]:
    """Servers of these names, each of which answers with one block; they log the resources that are read."""
    script = folder / "files.py"
    script.write_text(SERVER)
    return {
        name: {"command": sys.executable, "args": [str(script), json.dumps({"get": [block]}), str(folder / "read.log")]}
        for name, block in blocks.items()
    }


def files(folder: Path, block: Any, mode: str | None = "tokens", **privacy: Any) -> Path:
    settings = {"privacy": {"servers": {"files": mode}, **privacy}} if mode else {}
    return configuration(folder, answering(folder, files=block), **settings)


def text(content: str) -> dict[str, str]:
    return {"type": "text", "text": content}


@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        ("tokens", "<NAME_1>,<EMAIL_1>"),
        ("block", "its result is withheld: it has personal data"),
        (None, "ann.lee@example.org"),
    ],
    ids=["tokens", "refused", "the control"],
)
async def test_a_text_file_in_any_encoding_is_protected(tmp_path: Path, mode: str | None, shown: str) -> None:
    blob = base64.b64encode(TABLE.encode("utf-16")).decode()
    file = {"type": "resource", "resource": {"uri": "f:///a.csv", "mimeType": "text/csv", "blob": blob}}
    async with in_memory(files(tmp_path, file, mode)) as host:
        answer = await host.run("from servers.files import get\nprint(get().data.decode('utf-16'))")
        assert shown in answer.text
        assert ("ann.lee@example.org" in answer.text) is (mode is None)


ROW = {"full_name": "Ann Lee", "item": "Desk Lamp"}
LETTER = "Dear all,\nAnn Lee from Oslo called about the Desk Lamp."
IN_LETTER = "Dear all,\n<NAME_1> from Oslo called about the Desk Lamp."
ROWS = "import servers.crm\nrow = servers.crm.get()\n"
GET = "import servers.{0}\nservers.{0}.get()"


async def test_a_name_of_a_field_has_its_token_in_the_prose_of_another_server(tmp_path: Path) -> None:
    """`letters` and `open` answer with the same letter; `open` is not protected."""
    servers = answering(tmp_path, crm=text(json.dumps(ROW)), letters=text(LETTER), open=text(LETTER))
    path = configuration(tmp_path, servers, privacy={"servers": {"crm": "tokens", "letters": "tokens"}})
    async with in_memory(path) as host:
        before = await host.run(GET.format("letters") + ".partition(' from')[0]")
        assert before.value == "Dear all,\nAnn Lee", "before it is known: the control"
        assert (await host.run(ROWS + "row")).value == {"full_name": "<NAME_1>", "item": "Desk Lamp"}
        assert (await host.run(ROWS + GET.format("letters") + ".count(row['full_name'])")).value == 1
        assert (await host.run(GET.format("letters"))).value == IN_LETTER
        unprotected = await host.run(GET.format("open") + ".find('Ann Lee')")
        assert unprotected.value == LETTER.find("Ann Lee"), "a server with values gives programs its text as it is"
        assert (await host.run(GET.format("open"))).value == IN_LETTER, "what leaves for the model"


TEXT = "Ann Lee called about the Desk Lamp, see Peter O'Neil's letter."
FOUND = "<NAME_1> called about the Desk Lamp, see <NAME_2>'s letter."


@pytest.mark.parametrize("is_set", [True, False])
async def test_names_in_prose_become_tokens_if_a_recognizer_is_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_set: bool
) -> None:
    needs_spacy()
    install(monkeypatch, tmp_path / "installed", "finds_two", FINDS)
    recognizer: dict[str, Any] = {"name_models": ["finds_two"]} if is_set else {}
    async with in_memory(files(tmp_path, text(TEXT), **recognizer)) as host:
        assert (await host.run(GET.format("files"))).value == (FOUND if is_set else TEXT)


async def test_a_result_is_withheld_if_the_recognizer_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    needs_spacy()
    install(monkeypatch, tmp_path / "installed", "failing_model", FAILS)
    async with in_memory(files(tmp_path, text(TEXT), name_models=["failing_model"])) as host:
        refused = (await host.run(GET.format("files"))).text
    assert "its result is withheld: it could not be searched for names" in refused
    assert "privacy.name_models in upstream.yaml" in refused
    assert "Ann" not in refused + caplog.text
