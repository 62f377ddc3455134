"""`show`, pictures and `results`, as a program has them; what the host makes of them is in `tests/executions`."""

from __future__ import annotations

import pytest

from tests.sandbox.lab import PICTURE, Lab, Tools, cases
from tests.tables import rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="session")
TABLES = tables(__file__)


async def test_without_pillow_a_picture_says_what_else_there_is(lab: Lab) -> None:
    kind, message = await lab.error("from codemode import File\nFile(b'').image()")
    assert kind == "ImportError"
    assert "show(file)" in message
    assert "sandbox.image" in message


SHOWN = TABLES["shown"]


@pytest.mark.parametrize("how", cases(list(SHOWN), "in a list"))
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
    "figure": (
        "class Figure:\n    def savefig(self, file, format): file.write(b'fig ' + format.encode())\nshow(Figure())",
        (b"fig png", "image/png", None),
    ),
    "image": (
        "class Image:\n    mode, format = 'RGB', None\n"
        "    def save(self, file, format): file.write(b'im ' + format.encode())\n"
        "show(Image(), name='x')",
        (b"im PNG", "image/png", "x"),
    ),
}


@pytest.mark.portable
@pytest.mark.parametrize("what", THINGS)
async def test_what_can_be_shown_is_shown(lab: Lab, what: str) -> None:
    code, shown = THINGS[what]
    tools = Tools()
    await lab.value(f"from codemode import show\n{code}", tools)
    assert tools.shown == [shown]


@pytest.mark.portable
@pytest.mark.parametrize(("code", "error", "told"), rows(TABLES["refused"]))
async def test_what_can_not_be_shown_is_refused_with_what_can(lab: Lab, code: str, error: str, told: str) -> None:
    tools = Tools()
    kind, message = await lab.error(f"from codemode import show\n{code}", tools, call_bytes=1_500)
    assert kind == error
    assert told in message
    assert tools.shown == []


@pytest.mark.portable
@pytest.mark.parametrize("value", ["picture()", "[picture()]", "{'a': picture()}"])
async def test_a_file_as_a_value_is_described_and_the_way_to_show_it_is_told(lab: Lab, value: str) -> None:
    outcome = await lab.run(f"from servers.github import picture\n{value}", Tools())
    assert "show(file)" in outcome.hint
    assert "image/png" in str(outcome.value)
    assert (await lab.run("{'a': 1}")).hint == ""


@pytest.mark.portable
async def test_results_of_earlier_programs_are_read_by_name(lab: Lab) -> None:
    code = "from codemode import results\nf = results['x1/1']\n[results['x1'], results['x2'], f.data == %r, f.name]"
    assert await lab.value(code % PICTURE) == [[1, {"a": "b"}], "text", True, "p.png"]


@pytest.mark.portable
async def test_results_are_a_mapping_and_know_the_last(lab: Lab) -> None:
    code = (
        "from codemode import results\n[list(results), len(results), 'x1' in results, results.get('x9'), results.last]"
    )
    assert await lab.value(code) == [["x1", "x1/1", "x2"], 3, True, None, "text"]


@pytest.mark.portable
async def test_a_result_that_is_not_there_is_a_key_error_that_says_so(lab: Lab) -> None:
    kind, message = await lab.error("from codemode import results\nresults['x9']")
    assert (kind, "no result 'x9'" in message) == ("KeyError", True)
