"""Every way from a protected server to the model: none has a value that has a token, and without the section each does.

The server answers in many forms; the product, its sandbox and the host are real.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from codemode_server.cli import run
from tests.cli.pseudo_terminal import at_terminal

from .product import PLAIN, configuration, in_memory

pytestmark = pytest.mark.slow

EMAIL, NAME, PHONE, CARD = "ann.lee@example.org", "Ann Lee", "+49 30 901820", 4111111111111111
SERVER = (
    PLAIN
    + """
from typing import Any
server = Server("people")
ANN = {"full_name": "Ann Lee", "email": "ann.lee@example.org", "phone": "+49 30 901820"}
ANN["payment_card"] = 4111111111111111

@server.tool(description="List the customers.")
def customers() -> list[dict[str, Any]]:
    return [ANN, {**ANN, "email": "ANN.LEE@example.org"}]

@server.tool(description="One customer as a text.")
def card(number: int) -> str:
    return "name,email\\nAnn Lee,ann.lee@example.org\\n"

@server.tool(description="Fail.")
def fail(who: str = "") -> str:
    raise ToolError("no account for ann.lee@example.org")

@server.tool(description="Report the progress.")
def report(call: Call) -> str:
    call.report(1, 2, "asking ann.lee@example.org")
    call.cancelled.wait(1.5)
    return "done"

@server.tool(description="Take what is sent.")
def take(number: int) -> int:
    return number + 1

@server.tool(description="Customers.")
def many(start: int, count: int) -> list[dict[str, str]]:
    return [{"email": f"p{number}@example.org"} for number in range(start, start + count)]

server.run()
"""
)


def people(folder: Path, *, is_on: bool = True, server: dict[str, Any] | None = None, **privacy: Any) -> Path:
    script = folder / "people.py"
    script.write_text(SERVER)
    settings = {"privacy": {"servers": {"people": "tokens"}} | privacy} if is_on else {}
    return configuration(
        folder, {"people": {"command": sys.executable, "args": [str(script)]} | (server or {})}, **settings
    )


def values_in(text: str) -> list[str]:
    return [it for it in (EMAIL, NAME, PHONE, str(CARD)) if it.casefold() in text.casefold()]


CUSTOMERS = "from servers.people import customers\nrows = customers()\n"
WAYS = {
    "value": CUSTOMERS + "rows",
    "output": CUSTOMERS + "print(rows)",
    "error": CUSTOMERS + "raise ValueError(rows[0])",
    "key": CUSTOMERS + "{row['full_name']: 1 for row in rows}",
    "error of the server": "from servers.people import fail\nfail()",
    "caught error": "from servers.people import fail\ntry:\n    fail()\nexcept Exception as error:\n    print(error)",
    "text": "from servers.people import card\ncard(1)",
    "raw result": "from servers.people import customers\ncustomers.raw()",
    "summary of a call": CUSTOMERS + "from servers.people import fail\nfail(rows[0]['email'])",
    "shown text": CUSTOMERS + "from codemode import show\nshow(str(rows).encode(), name='rows.txt')",
}


@pytest.mark.parametrize("is_on", [True, False])
async def test_nothing_that_a_program_answers_has_a_value(tmp_path: Path, is_on: bool) -> None:
    """Without the section, the control, each of these ways has one."""
    async with in_memory(people(tmp_path, is_on=is_on)) as host:
        for name, code in WAYS.items():
            answer = (await host.run(code)).result.model_dump_json()
            assert bool(values_in(answer)) is not is_on, name
            assert ("_1>" in answer) is is_on, name


async def test_stored_results_session_logs_and_files_have_tokens_too(tmp_path: Path) -> None:
    async with in_memory(people(tmp_path)) as host:
        first = await host.run(CUSTOMERS + "open('/workspace/rows.txt', 'w').write(str(rows))\nrows")
        kept = await host.run(f"from codemode import results\nresults[{first.content['execution_id']!r}]")
        assert not values_in(kept.text)
        assert "_1>" in kept.text
        file = (await host.call("read_tool", path="/workspace/rows.txt")).text
        assert "<EMAIL_1>" in file
        assert not values_in(file)
        log = await host.run("import glob\nprint(open(glob.glob('/workspace/sessions/*.json')[0]).read())")
        assert not values_in(log.text)


async def test_progress_that_a_server_reports_has_the_kind_in_place_of_the_value(tmp_path: Path) -> None:
    async def lines(path: Path) -> list[str]:
        seen: list[str] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            seen.append(message or "")

        async with in_memory(path) as host:
            code = {"code": "from servers.people import report\nreport()"}
            await host.client.call_tool("execute_code", code, progress_callback=note)
        return seen

    protected = await lines(people(tmp_path))
    assert any("asking <EMAIL>" in line for line in protected)
    assert not values_in(" ".join(protected))
    assert values_in(" ".join(await lines(people(tmp_path, is_on=False)))), "the control"


async def test_a_direct_tool_answers_with_tokens(tmp_path: Path) -> None:
    path = people(tmp_path, server={"direct": ["*"]})
    async with in_memory(path) as host:
        tools = [it.name for it in (await host.client.list_tools()).tools]
        answer = await host.call(next(it for it in tools if it.endswith("customers")))
        assert not values_in(answer.result.model_dump_json())
        assert "<EMAIL_1>" in answer.text


PNG = "bytes.fromhex('89504e470d0a1a0a')"


async def test_a_file_that_cannot_be_searched_is_left_out_or_marked(tmp_path: Path) -> None:
    show = f"from codemode import show\nshow({PNG}, name='face.png')"
    async with in_memory(people(tmp_path)) as host:
        refused = await host.run(show)
        assert "privacy.shown_files" in refused.text
        assert [it.type for it in refused.result.content] == ["text"]
        text = await host.run("from codemode import show\nshow(b'a text', name='a.txt')")
        assert text.content["status"] == "succeeded", "the control"
    async with in_memory(people(tmp_path, shown_files="mark")) as host:
        marked = await host.run(show)
        assert "image" in [it.type for it in marked.result.content]
        assert "not searched for personal data" in marked.text


async def test_programs_join_on_tokens_across_servers(tmp_path: Path) -> None:
    path = people(tmp_path)
    settings = json.loads(path.read_text())
    settings["servers"]["friends"] = settings["servers"]["people"]
    settings["privacy"]["servers"]["friends"] = "tokens"
    path.write_text(json.dumps(settings))
    code = (
        "from servers.people import customers\nfrom servers.friends import customers as friends\n"
        "by_email = {row['email']: row['full_name'] for row in friends()}\n"
        "[by_email[row['email']] for row in customers()]"
    )
    async with in_memory(path) as host:
        assert (await host.run(code)).value == ["<NAME_1>", "<NAME_1>"]


MORE = "from servers.hr import many\n[len(many(1000, 30)), many(1000, 30)[-1]]"


async def test_a_too_large_result_leaves_room_for_others_and_its_message_says_what_makes_room(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = people(tmp_path)
    settings = json.loads(path.read_text())
    settings["servers"] = dict.fromkeys(("crm", "hr"), settings["servers"]["people"])
    settings["privacy"] = {"servers": {"*": "tokens"}, "max_tokens": 100}
    path.write_text(json.dumps(settings))
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
