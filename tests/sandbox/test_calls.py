"""Tools as a program calls them: arguments, both calling styles, overlap, errors, imports."""

# ruff: noqa: E501 - short programs read best on one line

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.domain.errors import SandboxFailed
from codemode_server.sandbox.contract import Ending
from tests.sandbox.lab import Lab, Tools, cases

pytestmark = pytest.mark.asyncio(loop_scope="session")
IMPORT = "from servers.github import create_issue, echo, update, list_issues, meet, boom, picture\n"


@pytest.mark.portable
@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("create_issue(owner='o', title='t')", {"owner": "o", "title": "t"}),
        ("create_issue('o', 't')", {"owner": "o", "title": "t"}),
        ("create_issue({'owner': 'o', 'title': 't'})", {"owner": "o", "title": "t"}),
        ("create_issue('o', 't', auth_method='x')", {"owner": "o", "title": "t", "auth-method": "x"}),
        ("create_issue('o', 't', **{'auth-method': 'x'})", {"owner": "o", "title": "t", "auth-method": "x"}),
        ("update({'a': 1})", {"data": {"a": 1}}),
        ("echo(**{'any-thing': 1}, b=(2, 3))", {"any-thing": 1, "b": [2, 3]}),
        ("echo({'x': 1})", {"x": 1}),
        (
            "import datetime; echo(d=datetime.date(2026, 1, 2), b=b'ab', s={1})",
            {"d": "2026-01-02", "b": "YWI=", "s": [1]},
        ),
    ],
)
async def test_a_tool_gets_the_arguments_under_its_own_names(lab: Lab, call: str, arguments: dict[str, Any]) -> None:
    tools = Tools()
    await lab.value(IMPORT + call, tools)
    assert [sent for _, _, sent in tools.calls] == [arguments]


@pytest.mark.portable
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "create_issue('o', titel='t')",
            "create_issue() has no argument 'titel'; did you mean 'title'? "
            "It takes owner, title, [auth_method], [labels].",
        ),
        (
            "create_issue(titel='t', labls=[])",
            "create_issue() has no argument 'titel'; did you mean 'title'? It has no argument 'labls'; did you mean "
            "'labels'? It is missing 'owner'. It takes owner, title, [auth_method], [labels].",
        ),
        ("list_issues(1, 2, 3)", "list_issues() takes 2 arguments, not 3. It takes repo, [state]."),
        ("list_issues('a', repo='a')", "list_issues() got argument 'repo' twice. It takes repo, [state]."),
        ("echo(x=object())", "echo() can't send argument 'x': object has no form in JSON"),
        (
            "x = []\nfor _ in range(100):\n    x = [x]\necho(x=x)",
            "echo() can't send argument 'x': nested more than 100 deep; send a flatter value",
        ),
    ],
)
async def test_wrong_arguments_say_what_is_right_and_send_nothing(lab: Lab, call: str, message: str) -> None:
    tools = Tools()
    assert await lab.error(IMPORT + call, tools) == ("TypeError", message)
    assert tools.calls == []


@pytest.mark.parametrize(
    "code",
    cases(
        {
            "used later": "doc = get_document('d')\nawait asyncio.sleep(0)\ndoc['content']",
            "plain": "doc = get_document('d')\nawait asyncio.sleep(0)\ntype(doc) is dict and doc['content']",
            "awaited": "doc = await get_document({'documentId': 'd'})\ndoc['content']",
            "task": "task = asyncio.create_task(get_document('d'))\n(await task)['content']",
            "gather": "(await asyncio.gather(get_document('d')))[0]['content']",
            "to_thread": "(await asyncio.to_thread(get_document, 'd'))['content']",
            "returned": "async def f():\n    return get_document('d')\n(await f())['content']",
            "in a function": "async def f():\n    doc = get_document('d')\n    return doc['content']\nf()",
            "asyncio.run": "async def f():\n    return get_document('d')['content']\nasyncio.run(f())",
            "run_until_complete": (
                "async def f():\n    return (await get_document('d'))['content']\n"
                "asyncio.get_event_loop().run_until_complete(f())"
            ),
            "task group": (
                "async def f():\n    async with asyncio.TaskGroup() as g:\n        t = g.create_task(get_document('d'))\n"
                "    return t.result()['content']\nawait f()"
            ),
            "client": (
                "from client import call_mcp_tool\n"
                "(await call_mcp_tool('mcp__google_drive__get_document', {'documentId': 'd'}, type=dict))['content']"
            ),
            "call": "import codemode\ncodemode.call('google_drive', 'get_document', {'documentId': 'd'})['content']",
        },
        "plain",
        "awaited",
    ),
)
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


@pytest.mark.parametrize(
    "code",
    cases(
        {
            "gather": "await asyncio.gather(*[meet(n=i, company=3) for i in range(3)])",
            "begun, then awaited": "ts = [meet(n=i, company=3) for i in range(3)]\n[await t for t in ts]",
            "to_thread": "await asyncio.gather(*[asyncio.to_thread(meet, n=i, company=3) for i in range(3)])",
            "gather of coroutines": "async def one(i):\n    return await meet(n=i, company=3)\nawait asyncio.gather(*map(one, range(3)))",
            "pool.map": "with ThreadPoolExecutor(3) as pool:\n    r = list(pool.map(meet, range(3), [3] * 3))\nr",
            "run_in_executor": (
                "loop = asyncio.get_running_loop()\nfs = [loop.run_in_executor(None, meet, i, 3) for i in range(3)]\n"
                "await asyncio.gather(*fs)"
            ),
        },
        "gather",
        "pool.map",
    ),
)
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


@pytest.mark.portable
async def test_a_file_comes_as_an_object_with_its_bytes(lab: Lab) -> None:
    code = (
        IMPORT
        + "f = picture()\nf.save('/tmp/p.png')\n[f.mime_type, f.name, f.size, open('/tmp/p.png', 'rb').read() == f.data, echo(f=f)]"
    )
    assert await lab.value(code) == ["image/png", "p.png", 10, True, {"f": "iVBORw0KGgoA/w=="}]


async def test_a_result_larger_than_allowed_is_an_error_of_the_call(lab: Lab) -> None:
    code = "from servers.github import rows\nfrom codemode import ToolError\ntry:\n    rows(1000)\nexcept ToolError as e:\n    r = [e.kind, 'limits.call_bytes' in str(e)]\n[r, len(rows(5))]"
    assert await lab.value(code, call_bytes=10_000) == [["result_too_large", True], 5]


@pytest.mark.portable
@pytest.mark.parametrize(
    "code",
    [
        "from servers.github import echo\necho(a=1)",
        "from servers.github.echo import echo\necho(a=1)",
        "import servers.github as gh\ngh.echo(a=1)",
        "import servers\nservers.github.echo(a=1)",
        "from servers import github\ngithub.echo(a=1)",
        "import servers.github.echo as e\ne(a=1)",
        "from servers.github import *\necho(a=1)",
        "def f():\n    from servers.github import echo\n    return echo(a=1)\nf()",
        "import importlib\nimportlib.import_module('servers.github').echo(a=1)",
    ],
)
async def test_a_tool_can_be_imported_in_every_way(lab: Lab, code: str) -> None:
    assert await lab.value(code) == {"a": 1}


@pytest.mark.portable
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("from servers.github import ecko", "ImportError"),
        ("from servers.gitub import echo", "ImportError"),
        ("import servers.github.ecko", "ImportError"),
        ("import servers\nservers.github.ecko", "AttributeError"),
        ("import servers\nservers.gitub", "AttributeError"),
        ("from skills.nothing import x", "ImportError"),
    ],
)
async def test_an_unknown_name_says_what_the_host_says(lab: Lab, code: str, kind: str) -> None:
    found, message = await lab.error(code)
    assert (found, "nearest: servers.github.create_issue" in message) == (kind, True)


@pytest.mark.parametrize(
    "code",
    cases(
        ["from skills.triage import triage", "from skills import triage"],
        "from skills.triage import triage",
    ),
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
