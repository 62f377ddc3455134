"""A value that has a token from one result has it in the text of another, before a program sees it."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

from .product import configuration, in_memory
from .test_privacy_files import SERVER, file

ROW = {"full_name": "Ann Lee", "item": "Desk Lamp"}
LETTER = "Dear all,\nAnn Lee from Oslo called about the Desk Lamp."
IN_LETTER = "Dear all,\n<NAME_1> from Oslo called about the Desk Lamp."
ROWS = "import servers.crm\nrow = servers.crm.get()\n"
READ = "import servers.{0}\nservers.{0}.get()"


def two_servers(folder: Path, letter: Any = None, row: dict[str, str] = ROW, **privacy: Any) -> Path:
    """`crm` answers with a row, and `letters` and `open` with the same letter; `open` is not protected."""
    script = folder / "server.py"
    script.write_text(SERVER)

    def server(block: Any) -> dict[str, Any]:
        answers = json.dumps({"get": [block]})
        return {"command": sys.executable, "args": [str(script), answers, str(folder / "read.log")]}

    shown = letter or {"type": "text", "text": LETTER}
    servers = {
        "crm": server({"type": "text", "text": json.dumps(row)}),
        "letters": server(shown),
        "open": server(shown),
    }
    return configuration(folder, servers, privacy={"servers": {"crm": "tokens", "letters": "tokens"}, **privacy})


async def test_a_name_of_a_field_has_its_token_in_the_prose_of_another_server(tmp_path: Path) -> None:
    async with in_memory(two_servers(tmp_path)) as host:
        assert (await host.run(READ.format("letters") + ".partition(' from')[0]")).value == "Dear all,\nAnn Lee", (
            "before it is known: the control"
        )
        assert (await host.run(ROWS + "row")).value == {"full_name": "<NAME_1>", "item": "Desk Lamp"}
        joined = ROWS + READ.format("letters") + ".count(row['full_name'])"
        assert (await host.run(joined)).value == 1
        assert (await host.run(READ.format("letters"))).value == IN_LETTER


async def test_a_server_can_make_no_words_of_others_into_tokens_for_programs(tmp_path: Path) -> None:
    """It calls them names. What leaves for the model may have tokens there; programs go on working."""
    row = {"full_name": "In Progress", "customer_name": "Order ID", "contact_name": "Open", "password": "prod-eu-1"}
    letter = {
        "type": "text",
        "text": json.dumps({"state": "In Progress", "Order ID": 1, "env": "prod-eu-1", "s": "Open"}),
    }
    async with in_memory(two_servers(tmp_path, letter, row)) as host:
        assert (await host.run(ROWS + "[it.partition('_')[0] for it in row.values()]")).value == ["<NAME"] * 3 + [
            "<CREDENTIAL"
        ], "the control"
        check = "row = " + READ.format("letters").splitlines()[1]
        code = f"import servers.letters\n{check}\n"
        same = "[row['state'] == 'In ' + 'Progress', row['Order' + ' ID'], len(row['env']), len(row['s'])]"
        assert (await host.run(code + same)).value == [True, 1, 9, 4]


async def test_a_server_with_values_gives_programs_its_text_as_it_is(tmp_path: Path) -> None:
    async with in_memory(two_servers(tmp_path)) as host:
        await host.run(ROWS)
        assert (await host.run(READ.format("open") + ".find('Ann Lee')")).value == LETTER.find("Ann Lee")
        assert (await host.run(READ.format("open"))).value == IN_LETTER, "what leaves for the model"


async def test_a_file_has_the_token_too(tmp_path: Path) -> None:
    letter = file(base64.b64encode(LETTER.encode()).decode(), "text/plain")
    async with in_memory(two_servers(tmp_path, letter)) as host:
        await host.run(ROWS)
        assert (await host.run(READ.format("letters") + ".data.find(b'Ann Lee')")).value == -1
        assert (await host.run(READ.format("open") + ".data.find(b'Ann Lee')")).value == LETTER.find("Ann Lee")
