"""Files, pictures and results as a program has them: `File`, `show`, `results`, base64 in results, and raw results."""

# ruff: noqa: E501 - short programs read best on one line

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from codemode_server.sandbox.contract import Reply
from codemode_server.upstreams.results import to_reply
from tests.sandbox.lab import HEAD as STUB_HEAD
from tests.sandbox.lab import PICTURE, Lab, Tools
from tests.sandbox.shop import Shop
from tests.tables import rows, tables

TABLES = tables(__file__)
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.portable]
HEAD = "from servers.shop import *\n"


async def test_texts_and_files_come_in_order(lab: Lab) -> None:
    code = f"{HEAD}text, image = picture()\n[text, image.data == b'hi', image.mime_type, image.size, image.is_link]"
    assert await lab.value(code, Shop()) == ["here", True, "image/png", 2, False]


@pytest.mark.parametrize("code", rows(TABLES["links"]))
async def test_a_link_is_fetched_from_its_server_when_it_is_used(lab: Lab, code: str) -> None:
    tools = Shop()
    assert await lab.value(HEAD + code, tools) == "in doc://a"
    assert ("shop", "read_resource", {"uri": "doc://a"}) in tools.calls


async def test_a_link_that_can_not_be_read_is_a_tool_error(lab: Lab) -> None:
    kind, message = await lab.error(f"{HEAD}from codemode import File\nFile(None, uri='x').text", Shop())
    assert (kind, "nowhere to fetch it from" in message) == ("ValueError", True)
    code = f"{HEAD}link = documents()[0]\nlink.uri = 'x' * 9_000\nlink.fetch()"
    kind, message = await lab.error(code, Shop())
    assert (kind, "at most 8,192" in message) == ("ToolError", True)


@pytest.mark.parametrize(
    ("result", "text"), [("documents()[1]", '{"a": 1}'), ("picture()", "here"), ("chart()", "a chart")]
)
async def test_text_is_a_value_everywhere_and_may_be_called(lab: Lab, result: str, text: str) -> None:
    """A model that knows one of files and results writes the same for the other."""
    code = f"{HEAD}import json\nr = {result}\n[r.text, r.text(), r.text('UTF-8'), r.text('ascii'), r.text.upper(), json.loads(json.dumps(r.text)), {{r.text: 1}}]"
    assert await lab.value(code, Shop()) == [text, text, text, text, text.upper(), text, {text: 1}]
    code = f"{HEAD}import re\n[re.sub('(x)', r, '-x-') for r in ({result}.text, str({result}.text))]"
    assert await lab.value(code, Shop()) == [f"-{text}-"] * 2
    tools = Shop()
    await lab.value(f"{HEAD}from servers.github import echo\necho(text={result}.text)", tools)
    assert tools.asked[-1] == {"text": text}


@pytest.mark.parametrize(("file", "shown"), rows(TABLES["printed"]))
async def test_a_file_is_printed_with_the_ways_to_read_it(lab: Lab, file: str, shown: str) -> None:
    assert await lab.value(f"{HEAD}from codemode import File\nrepr({file})", Shop()) == shown


async def test_what_came_beside_an_object_is_at_hand_and_told(lab: Lab) -> None:
    code = f"{HEAD}c = chart()\n[c['width'], c.files[0].data == b'hi', c.text, c['text'], list(c), dict(c) == {{'width': 3}}]"
    assert await lab.value(code, Shop()) == [3, True, "a chart", "a chart", ["width"], True]
    image = {"mime_type": "image/png", "size": 2, "name": None}
    assert await lab.value(f"{HEAD}chart()", Shop()) == {"width": 3, "files": [image], "text": "a chart"}
    tools = Shop()
    await lab.value(f"{HEAD}from servers.github import echo\necho(chart=chart())", tools)
    assert tools.asked[-1] == {"chart": {"width": 3}}, "a tool gets the object alone"


async def test_a_text_beside_a_number_is_a_line_of_the_output(lab: Lab) -> None:
    outcome = await lab.run(f"{HEAD}count() + 1", Shop())
    assert (outcome.value, outcome.stderr) == (43, "text beside 42: 42, but three days old\n")


@pytest.mark.parametrize("code", rows(TABLES["raw"]))
async def test_raw_gives_the_whole_result_in_every_style(lab: Lab, code: str) -> None:
    expected = {"content": [], "structuredContent": {"owner": "a", "item_id": 1}}
    assert await lab.value(HEAD + code, Shop()) == expected


async def test_json_loads_parses_the_text_that_is_the_only_value_of_a_result(lab: Lab) -> None:
    """Many servers give `{"content": "<text>"}`; the dict itself, taken for what the text holds, gives wrong answers."""
    code = """
import json
given = [{"content": ' {"open": [1]}'}, {"text": "[1]"}]
whole = [*({"content": text} for text in ("plain", "{", "5", '"a"')), {"a": "[1]", "b": 1}, {}, {"a": [1]}]
same = [json.loads(value) == value for value in whole]
[*(json.loads(value) for value in given), json.loads(given[1], parse_int=str), same]
"""
    assert await lab.value(code) == [{"open": [1]}, [1], ["1"], [True] * 7]


SHOWN = TABLES["shown"]


@pytest.mark.parametrize("how", SHOWN)
async def test_a_file_of_a_tool_is_shown_byte_for_byte(lab: Lab, how: str) -> None:
    tools = Tools()
    outcome = await lab.run(f"from codemode import show\n{SHOWN[how]}", tools)
    assert outcome.error is None
    assert tools.shown == [(PICTURE, "image/png", "p.png")]
    assert outcome.value_form == "none", "what show gives is no value of the program"


THINGS = {
    "bytes": ("show(b'abc', mime_type='text/plain', name='a.txt')", (b"abc", "text/plain", "a.txt")),
    "bytearray": ("show(bytearray(b'abc'))", (b"abc", None, None)),
    "stream": ("import io\nshow(io.BytesIO(b'abc'))", (b"abc", None, None)),
    "path": ("import pathlib\np = pathlib.Path('/tmp/a.txt')\np.write_bytes(b'abc')\nshow(p)", (b"abc", None, "a.txt")),
    "path as text": ("open('/workspace/a.txt', 'w').write('abc')\nshow('/workspace/a.txt')", (b"abc", None, "a.txt")),
}


@pytest.mark.parametrize("what", THINGS)
async def test_what_can_be_shown_is_shown(lab: Lab, what: str) -> None:
    code, shown = THINGS[what]
    tools = Tools()
    await lab.value(f"from codemode import show\n{code}", tools)
    assert tools.shown == [shown]


@pytest.mark.parametrize(("code", "error", "told"), rows(TABLES["refused"]))
async def test_what_can_not_be_shown_is_refused_with_what_can(lab: Lab, code: str, error: str, told: str) -> None:
    tools = Tools()
    kind, message = await lab.error(f"from codemode import show\n{code}", tools, call_bytes=1_500)
    assert kind == error
    assert told in message
    assert tools.shown == []


@pytest.mark.parametrize("value", ["picture()", "[picture()]", "{'a': picture()}"])
async def test_a_file_as_a_value_is_described_and_the_way_to_show_it_is_told(lab: Lab, value: str) -> None:
    outcome = await lab.run(f"from servers.github import picture\n{value}", Tools())
    assert "show(file)" in outcome.hint
    assert "image/png" in str(outcome.value)
    assert (await lab.run("{'a': 1}")).hint == ""


async def test_results_of_earlier_programs_are_a_mapping_by_name(lab: Lab) -> None:
    code = "from codemode import results\nf = results['x1/1']\n[results['x1'], results.last, f.data == %r, f.name]"
    assert await lab.value(code % PICTURE) == [[1, {"a": "b"}], "text", True, "p.png"]
    code = "from codemode import results\n[list(results), len(results), 'x1' in results, results.get('x9')]"
    assert await lab.value(code) == [["x1", "x1/1", "x2"], 3, True, None]
    kind, message = await lab.error("from codemode import results\nresults['x9']")
    assert (kind, "no result 'x9'" in message) == ("KeyError", True)


LARGE_PICTURE = b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(6_000)
DATA = base64.b64encode(LARGE_PICTURE).decode()
OTHER = random.Random(2).randbytes(3_000)
KEY = base64.b64encode(random.Random(3).randbytes(400)).decode()
IMAGE = {"type": "image", "data": DATA, "mimeType": "image/png"}
SUMMARY = "(6,008 bytes, image/png: .files[0])"
RESULTS: dict[str, dict[str, Any]] = {
    "media": {"content": [IMAGE], "structuredContent": {"content": [IMAGE], "key": KEY}},
    "said": {"content": [{"type": "text", "text": "before"}, IMAGE, {"type": "text", "text": "after"}]},
    "listed": {"content": [{"type": "text", "text": json.dumps([{"shot": DATA}, {"key": KEY}])}]},
    "address": {"content": [{"type": "text", "text": f"data:image/png;base64,{DATA}"}]},
    "wrapped": {"structuredContent": {"encoding": "base64", "content": base64.encodebytes(OTHER).decode()}},
    "plain": {"structuredContent": {"key": KEY, "text": "x"}},
}
ALL = "from servers.media import *\nfrom codemode import show\n"


class Media(Tools):
    async def load(self, module: str) -> dict[str, Any]:
        match module.split("."):
            case ["servers", "media"]:
                return {"kind": "package", "names": list(RESULTS), "doc": "Media."}
            case ["servers", "media", tool]:
                return {
                    "kind": "module",
                    "source": f'{STUB_HEAD}\n@tool("media", "{tool}")\ndef {tool}() -> Any: ...\n',
                }
        return await super().load(module)

    async def call(self, server: str, tool: str, arguments: dict[str, Any], *, raw: bool = False, **_: Any) -> Reply:
        if server != "media":
            return await super().call(server, tool, arguments, raw=raw)
        return Reply(RESULTS[tool]) if raw else to_reply(RESULTS[tool])


async def test_the_program_has_the_bytes(lab: Lab) -> None:
    code = f"""{ALL}
import base64
r, s = media(), said()
data = r["content"][0]["data"]
saved = r.files[0].save("/workspace/a/p.png")
[len(data), base64.b64decode(data) == r.files[0].data == s.files[0].data == saved.read_bytes() == listed().files[0].data, r["files"] == r.files, s.text, base64.b64decode(wrapped()["content"]) == wrapped().files[0].data]
"""
    assert await lab.value(code, Media()) == [len(DATA), True, True, "before\nafter", True]


@pytest.mark.parametrize(("code", "value"), rows(TABLES["values"]))
async def test_a_value_has_a_summary_in_place_of_bytes(lab: Lab, code: str, value: Any) -> None:
    outcome = await lab.run(ALL + code, Media())
    assert outcome.value == value
    assert "show(file)" in outcome.hint


@pytest.mark.parametrize("code", rows(TABLES["encoded_printed"]))
async def test_nothing_that_a_program_prints_or_raises_shows_bytes(lab: Lab, code: str) -> None:
    outcome = await lab.run(ALL + code, Media())
    written = (
        outcome.stdout + outcome.stderr + (outcome.error.message + outcome.error.traceback if outcome.error else "")
    )
    assert SUMMARY in written
    assert DATA[100:150] not in written


async def test_text_that_merely_looks_like_base64_is_shown_whole(lab: Lab) -> None:
    """Beside files and without: only what a tool declared to be a file is summarized."""
    code = f"{ALL}r = media()\nprint(r['key'])\nprint({KEY!r} + 'A' * 300)\n[plain(), 'iVBORw0KGgo' + 'b' * 300]"
    outcome = await lab.run(code, Media())
    assert outcome.value == [{"key": KEY, "text": "x"}, "iVBORw0KGgo" + "b" * 300]
    assert outcome.stdout == f"{KEY}\n{KEY}{'A' * 300}\n"
    assert outcome.hint == ""


async def test_a_tool_gets_the_base64_itself(lab: Lab) -> None:
    tools = Media()
    await lab.value(f"{ALL}from servers.github import echo\necho(a=media()['content'][0]['data'], b=media())", tools)
    assert tools.calls[-1][2] == {"a": DATA, "b": {"content": [IMAGE], "key": KEY}}
