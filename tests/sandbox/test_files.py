"""What a tool gives that is no plain JSON, as a program has it: files, links, what is beside an object, raw results."""

# ruff: noqa: E501 - short programs read best on one line

from __future__ import annotations

import pytest

from tests.sandbox.lab import Lab, cases
from tests.sandbox.shop import Shop
from tests.tables import rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="session")
TABLES = tables(__file__)
HEAD = "from servers.shop import *\n"


@pytest.mark.portable
async def test_texts_and_files_come_in_order(lab: Lab) -> None:
    code = f"{HEAD}text, image = picture()\n[text, image.data == b'hi', image.mime_type, image.size, image.is_link]"
    assert await lab.value(code, Shop()) == ["here", True, "image/png", 2, False]


@pytest.mark.parametrize("code", cases(TABLES["links"], "documents()[0].fetch().text"))
async def test_a_link_is_fetched_from_its_server_when_it_is_used(lab: Lab, code: str) -> None:
    tools = Shop()
    assert await lab.value(HEAD + code, tools) == "in doc://a"
    assert ("shop", "read_resource", {"uri": "doc://a"}) in tools.calls


@pytest.mark.portable
async def test_a_link_that_can_not_be_read_is_a_tool_error(lab: Lab) -> None:
    kind, message = await lab.error(f"{HEAD}from codemode import File\nFile(None, uri='x').text", Shop())
    assert (kind, "nowhere to fetch it from" in message) == ("ValueError", True)
    code = f"{HEAD}link = documents()[0]\nlink.uri = 'x' * 9_000\nlink.fetch()"
    kind, message = await lab.error(code, Shop())
    assert (kind, "at most 8,192" in message) == ("ToolError", True)


@pytest.mark.portable
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


@pytest.mark.portable
@pytest.mark.parametrize(("file", "shown"), rows(TABLES["printed"]))
async def test_a_file_is_printed_with_the_ways_to_read_it(lab: Lab, file: str, shown: str) -> None:
    assert await lab.value(f"{HEAD}from codemode import File\nrepr({file})", Shop()) == shown


@pytest.mark.portable
async def test_what_came_beside_an_object_is_at_hand_and_told(lab: Lab) -> None:
    code = f"{HEAD}c = chart()\n[c['width'], c.files[0].data == b'hi', c.text, c['text'], list(c), dict(c) == {{'width': 3}}]"
    assert await lab.value(code, Shop()) == [3, True, "a chart", "a chart", ["width"], True]
    image = {"mime_type": "image/png", "size": 2, "name": None}
    assert await lab.value(f"{HEAD}chart()", Shop()) == {"width": 3, "files": [image], "text": "a chart"}
    tools = Shop()
    await lab.value(f"{HEAD}from servers.github import echo\necho(chart=chart())", tools)
    assert tools.asked[-1] == {"chart": {"width": 3}}, "a tool gets the object alone"


@pytest.mark.portable
@pytest.mark.parametrize("code", rows(TABLES["raw"]))
async def test_raw_gives_the_whole_result_in_every_style(lab: Lab, code: str) -> None:
    expected = {"content": [], "structuredContent": {"owner": "a", "item_id": 1}}
    assert await lab.value(HEAD + code, Shop()) == expected


@pytest.mark.portable
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
