"""Tools as a program calls them: arguments, both calling styles, overlap, order of answers, errors, imports."""

# ruff: noqa: E501 - short programs read best on one line

from __future__ import annotations

from typing import Any

import anyio
import pytest

from codemode_server.domain.errors import SandboxFailed
from codemode_server.sandbox.contract import Ending, Reply
from tests.sandbox.lab import Lab, Tools, cases
from tests.tables import rows, tables

TABLES = tables(__file__)
pytestmark = pytest.mark.asyncio(loop_scope="session")
IMPORT = "from servers.github import create_issue, echo, update, list_issues, meet, boom, picture\n"


@pytest.mark.portable
@pytest.mark.parametrize(("call", "arguments"), rows(TABLES["arguments"]))
async def test_a_tool_gets_the_arguments_under_its_own_names(lab: Lab, call: str, arguments: dict[str, Any]) -> None:
    tools = Tools()
    await lab.value(IMPORT + call, tools)
    assert [sent for _, _, sent in tools.calls] == [arguments]


@pytest.mark.portable
@pytest.mark.parametrize(("call", "message"), rows(TABLES["wrong_arguments"]))
async def test_wrong_arguments_say_what_is_right_and_send_nothing(lab: Lab, call: str, message: str) -> None:
    tools = Tools()
    assert await lab.error(IMPORT + call, tools) == ("TypeError", message)
    assert tools.calls == []


@pytest.mark.parametrize("code", cases(TABLES["styles"], "plain", "awaited"))
async def test_a_call_gives_its_value_in_every_style(lab: Lab, code: str) -> None:
    head = "import asyncio\nfrom servers.google_drive import get_document\n"
    assert await lab.value(head + code) == "text of d"


@pytest.mark.portable
async def test_a_call_that_nobody_awaited_is_made_and_its_failure_shown(lab: Lab) -> None:
    tools = Tools()
    code = (
        IMPORT
        + "import asyncio\nasync def main():\n    box = {'made': boom()}\n    await asyncio.sleep(0)\nawait main()"
    )
    kind, _ = await lab.error(code, tools)
    assert (kind, [tool for _, tool, _ in tools.calls]) == ("ToolError", ["boom"])


@pytest.mark.parametrize("code", cases(TABLES["overlapping"], "gather", "pool.map"))
async def test_calls_overlap_on_the_host(lab: Lab, code: str) -> None:
    """`meet` answers only when three calls are there at once."""
    head = "import asyncio, threading\nfrom concurrent.futures import ThreadPoolExecutor, as_completed\n"
    assert await lab.value(head + IMPORT + code) == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_no_more_calls_are_in_flight_than_allowed(lab: Lab) -> None:
    tools = Tools()
    code = IMPORT + "import asyncio\nlen(await asyncio.gather(*[echo(n=i) for i in range(20)]))"
    assert await lab.value(code, tools, calls_in_flight=3) == 20
    assert tools.most_here <= 3


POOL = IMPORT + "import threading, time\nfrom concurrent.futures import ThreadPoolExecutor\n"


PYTHON_VALUES = """
import collections, dataclasses, datetime, decimal, enum, fractions
from servers.github import echo
Color = enum.Enum("Color", {"RED": "red", "HALF": decimal.Decimal("0.5")})
Pair = collections.namedtuple("Pair", "left right")
@dataclasses.dataclass
class Line:
    price: object
class Scalar:
    def item(self): return 7
class Model:
    def model_dump(self): return {"lines": [Line(fractions.Fraction(1, 4))]}
echo(a=[Pair(1, Color.RED), {3, 1}, b"hi"], b=Model(), c=Scalar(), d=Color.HALF, e=datetime.timedelta(seconds=90),
    f={"at": datetime.datetime(2026, 1, 2, 3)}, g=datetime.date(2026, 1, 2), h=decimal.Decimal("0.1234567890123456789"),
    i=decimal.Decimal("1E+5000"))
"""


@pytest.mark.portable
async def test_a_python_value_is_sent_as_text_with_its_other_forms(lab: Lab) -> None:
    class Forms(Tools):
        async def call(self, server: str, tool: str, arguments: dict[str, Any], **more: Any) -> Reply:
            return Reply([arguments, [[*path, form] for path, form in more["forms"]]])

    assert await lab.value(PYTHON_VALUES, Forms()) == [
        {
            "a": [{"left": 1, "right": "red"}, [1, 3], "aGk="],
            "b": {"lines": [{"price": "1/4"}]},
            "c": 7,
            "d": "0.5",
            "e": "0:01:30",
            "f": {"at": "2026-01-02T03:00:00"},
            "g": "2026-01-02",
            "h": "0.1234567890123456789",
            "i": "1E+5000",
        },
        [
            ["a", 2, {"base64": True}],
            ["b", "lines", 0, "price", {"number": 0.25}],
            ["d", {"number": 0.5}],
            ["e", {"number": 90, "duration": "PT90S"}],
            ["f", "at", {"date": "2026-01-02"}],
            ["g", {"date-time": "2026-01-02T00:00:00"}],
        ],
    ]


@pytest.mark.portable
@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("{1: 'a', '1': 'b'}", "1"),
        ("{None: 0, 'null': 1, 'x': 2}", "null"),
        ("{__import__('decimal').Decimal('1.50'): 1, '1.50': 2}", "1.50"),
    ],
)
async def test_keys_that_json_would_merge_are_an_error_in_a_call_and_kept_apart_in_a_value(
    lab: Lab, value: str, key: str
) -> None:
    tools = Tools()
    message = f"echo() can't send argument 'x': two keys of a dict are both written as {key!r} in JSON"
    assert await lab.error(f"{IMPORT}echo(x=[{value}])", tools) == ("TypeError", message)
    assert tools.calls == []
    assert await lab.value(f"[{value}]") == repr([eval(value)])


@pytest.mark.portable
async def test_an_error_in_a_thread_is_printed_and_the_program_goes_on(lab: Lab) -> None:
    outcome = await lab.run(POOL + "t = threading.Thread(target=boom)\nt.start()\nt.join()\n'on'")
    assert outcome.value == "on"
    assert "boom: no such repository" in outcome.stderr
    assert "codemode_guest" not in outcome.stderr


@pytest.mark.portable
async def test_a_failed_call_can_be_caught_and_tells_all(lab: Lab) -> None:
    code = (
        IMPORT
        + "from codemode import ToolError\ntry:\n    boom()\nexcept ToolError as e:\n    r = [str(e), e.server, e.tool, e.kind, e.message]\nr"
    )
    message = "boom: no such repository"
    assert await lab.value(code) == [message, "github", "boom", "tool_failed", message]


async def test_a_result_larger_than_allowed_is_an_error_of_the_call(lab: Lab) -> None:
    code = "from servers.github import rows\nfrom codemode import ToolError\ntry:\n    rows(1000)\nexcept ToolError as e:\n    r = [e.kind, 'limits.call_bytes' in str(e)]\n[r, len(rows(5))]"
    assert await lab.value(code, call_bytes=10_000) == [["result_too_large", True], 5]


@pytest.mark.portable
@pytest.mark.parametrize("code", rows(TABLES["imports"]))
async def test_a_tool_can_be_imported_in_every_way(lab: Lab, code: str) -> None:
    assert await lab.value(code) == {"a": 1}


@pytest.mark.portable
@pytest.mark.parametrize(("code", "kind"), rows(TABLES["unknown_names"]))
async def test_an_unknown_name_says_what_the_host_says(lab: Lab, code: str, kind: str) -> None:
    found, message = await lab.error(code)
    assert (found, "nearest: servers.github.create_issue" in message) == (kind, True)


@pytest.mark.parametrize(
    "code", cases(["from skills.triage import triage", "from skills import triage"], "from skills.triage import triage")
)
async def test_a_skill_is_imported_and_calls_tools(lab: Lab, code: str) -> None:
    assert await lab.value(f"{code}\ntriage('a')") == 2


@pytest.mark.portable
@pytest.mark.parametrize("module", ["codemode", "tool_discovery"])
async def test_a_program_can_search(lab: Lab, module: str) -> None:
    asked = {"query": "issue", "detail_level": "full", "server": "github", "limit": 3, "effect": "reads"}
    assert await lab.value(f"from {module} import search_tools\nsearch_tools(**{asked})") == [asked]


async def test_the_host_can_end_a_program_whatever_it_catches(lab: Lab) -> None:
    tools = Tools()
    tools.fail_with = SandboxFailed("the record can't be written")
    outcome = await lab.run(
        IMPORT + "while True:\n    try:\n        echo()\n    except BaseException:\n        pass", tools
    )
    assert (outcome.ending, outcome.error and outcome.error.message) == (Ending.DIED, "the record can't be written")


async def test_calls_still_on_their_way_when_a_program_ends_are_cancelled(lab: Lab) -> None:
    tools = Tools()
    code = (
        IMPORT + "import asyncio\nfrom servers.github import forever\nt = asyncio.create_task(forever())\n"
        "await asyncio.create_task(echo())\n1"
    )
    assert await lab.value(code, tools) == 1
    assert (len(tools.calls), tools.here) == (2, 0)


CODE = """
import asyncio
from servers.github import echo
arrived = []
async def one(name):
    await echo(name=name)
    arrived.append(name)
async def main():
    await asyncio.gather(*map(one, ["small", "large", "small too"]))
asyncio.run(main())
arrived
"""


class LargeFirst(Tools):
    """Answers the call `large` first, with a result that takes long to encode, and the others at once after it."""

    def __init__(self) -> None:
        super().__init__()
        self._is_answered = anyio.Event()

    async def call(self, server: str, tool: str, arguments: dict[str, Any], *, raw: bool = False, **_: Any) -> Reply:
        if arguments["name"] == "large":
            await anyio.wait_all_tasks_blocked()
            self._is_answered.set()
            return Reply([{"number": number, "text": "x" * 50} for number in range(30_000)])
        await self._is_answered.wait()
        return Reply(arguments["name"])


@pytest.mark.portable
async def test_a_small_answer_does_not_overtake_a_large_one(lab: Lab) -> None:
    assert (await lab.run(CODE, LargeFirst())).value == ["large", "small", "small too"]


async def test_the_tokens_of_a_program_are_those_of_its_calls(lab: Lab) -> None:
    """And not those of what it imports or searches."""
    code = """
    from client import get_client
    from codemode import search_tools
    search_tools("issue")
    before = get_client().total_tokens
    from servers.github import echo
    echo(x="a" * 4_000)
    before, get_client().total_tokens > 1_000
    """
    assert await lab.value(code) == [0, True]
