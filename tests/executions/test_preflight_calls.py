"""What is surely wrong with a program is found before anything of it runs, with its line and what is right."""

from __future__ import annotations

from functools import partial

import pytest

from codemode_server.calls.execution_calls import CallReport, ExecutionCalls
from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from codemode_server.domain.tools import UpstreamState
from codemode_server.executions.programs import refutes

from .kit import GITHUB, TEXT, checked, errors, lines, listing, tool, warnings

LIST = "list_issues() {} It takes repo, [state], [labels], [limit]."


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from servers.githb import list_issues", '1: no server "githb"; nearest: github'),
        ("import servers\n\nservers.githb.list_issues('a')", '3: no server "githb"; nearest: github'),
        (
            "from servers.github import (\n    list_issues,\n    crate_issue,\n)",
            '3: no tool "crate_issue" in servers.github; nearest: create_issue, get_issue, list_issues',
        ),
        (
            "from servers.github.lst_issues import lst_issues",
            '1: no tool "lst_issues" in servers.github; nearest: list_issues, get_issue, create_issue',
        ),
        (
            "from servers import google_drive as gd\ngd.get_docment('a')",
            '2: no tool "get_docment" in servers.google_drive; nearest: get_document, get_sheet',
        ),
    ],
)
async def test_a_server_or_tool_that_is_not_there_is_named_with_the_nearest(code: str, expected: str) -> None:
    assert await errors(code) == [expected]


async def test_a_tool_that_is_called_like_a_function_of_the_module_of_its_name_is_told_from_it() -> None:
    catalog = Catalog.build([listing("calc", tool("random", {"type": TEXT}, ["type"]))])
    both = "to use both, write: import random; from servers.calc import random as calc_random"
    head = "from servers.calc import random\n"
    assert await errors(f"{head}random.random()", catalog) == [f"2: random is the tool of servers.calc here; {both}"]
    assert await errors(f"{head}random()", catalog) == ["2: random() is missing 'type'. It takes type."]
    assert await errors(f"{head}random.random(type='a')", catalog) == []
    assert await errors(f"{head}import random\nrandom.random()", catalog) == []


@pytest.mark.parametrize(
    "line", ["from servers.calc import hash; hash('x')", "from servers import calc; calc.hash('x')"]
)
async def test_a_tool_under_its_own_name_is_answered_with_the_name_of_its_function(line: str) -> None:
    catalog = Catalog.build([listing("calc", tool("hash", {"text": TEXT}, ["text"]))])
    assert await errors(line, catalog) == ["1: the function is hash_; write: from servers.calc import hash_"]
    assert await errors("from servers.calc import hash\nhash.hash_('x')", catalog) == []


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ("list_issues('a', labl=['x'])", "has no argument 'labl'; did you mean 'labels'?"),
        ("list_issues(**{'repo': 'a', 'labl': ['x']})", "has no argument 'labl'; did you mean 'labels'?"),
        ("list_issues(*rows, labl=['x'])", "has no argument 'labl'; did you mean 'labels'?"),
        ("list_issues(state='open')", "is missing 'repo'."),
        ("list_issues(...)", "is missing 'repo'."),
        ("list_issues('a', 'open', [], 3, 4)", "takes 4 arguments, not 5."),
        ("list_issues('a', repo='b')", "got argument 'repo' twice."),
    ],
)
@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("from servers.github import list_issues", "list_issues"),
        ("from servers import github", "github.list_issues"),
        ("import servers.github as gh", "gh.list_issues"),
        ("import servers.github", "servers.github.list_issues"),
        ("import servers.github.list_issues as li", "li.list_issues"),
        ("from servers.github import *", "list_issues"),
    ],
)
async def test_a_call_that_the_guest_would_refuse_is_refused_in_its_words(
    head: str, name: str, call: str, wrong: str
) -> None:
    code = f"{head}\nrows = ['a']\n{call.replace('list_issues', name, 1)}"
    assert await errors(code) == [f"3: {LIST.format(wrong)}"]


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ("list_issues('a', limit='5')", "'limit' must be an integer, not \"5\""),
        ("list_issues('a', 'opn')", '\'state\' must be one of "open", "closed", "all", not "opn"'),
        ("list_issues(who, labels=['a', 5])", "'labels[1]' must be a string, not 5"),
    ],
)
async def test_a_constant_that_the_gateway_would_refuse_is_refused(call: str, wrong: str) -> None:
    code = f"from servers.github import list_issues\ndef run(who):\n    return {call}\nrun('a')"
    assert await errors(code) == [f"3: list_issues(): {wrong}."]


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        (
            "list_issues(repoo='a', labl=['x'], stat='open')",
            "has no argument 'repoo'; did you mean 'repo'? It has no argument 'labl'; did you mean 'labels'? "
            "It has no argument 'stat'; did you mean 'state'?",
        ),
        (
            "list_issues('a', a=1, b=1, c=1, d=1, e=1, f=1, g=1)",
            "has no argument 'a'. It has no argument 'b'. It has no argument 'c'. It has no argument 'd'. "
            "It has no argument 'e'. It has 2 more mistakes.",
        ),
    ],
)
async def test_all_wrong_arguments_of_a_call_are_named_at_once(call: str, wrong: str) -> None:
    assert await errors(f"from servers.github import list_issues\n{call}") == [f"2: {LIST.format(wrong)}"]


@pytest.mark.parametrize(
    "call",
    [
        "update({'a': 1})",
        "echo({'any': 'thing'})",
        "list_issues('a', **x)",
        "list_issues({'repo': 'a', **x})",
        "list_issues('a', state=..., limit=5)",
        "list_issues('a', labels=('x', 'y'))",
        "list_issues('a', limit=5.0)",
        "list_issues.raw('a')",
        "list_issues.map(['a', 'b'], state='open')",
        "list_issues.pages(repo='a')",
    ],
)
async def test_every_way_of_calling_is_let_through(call: str) -> None:
    code = f"from servers.github import *\ndef run(x):\n    return {call}\nrun('a')"
    assert await errors(code) == []


async def test_a_coroutine_that_nobody_awaits_is_found() -> None:
    head = "from servers.github import boom\nasync def main():\n    return boom()\n"
    assert await errors(f"{head}main()\nprint('done')") == [
        "4: main() is async and nobody awaits it, so nothing of it runs; write: await main(…)"
    ]


@pytest.mark.parametrize(
    "end",
    [
        "main()",
        "await main()",
        "import asyncio\nasyncio.run(main())",
        "if __name__ == '__main__':\n    main()",
    ],
)
async def test_a_coroutine_that_somebody_awaits_is_fine(end: str) -> None:
    assert await errors(f"from servers.github import boom\nasync def main():\n    return boom()\n{end}") == []


async def test_a_misspelt_variable_of_a_program_with_tools_is_found_before_a_call_is_made() -> None:
    code = "from servers.github import boom, create_issue\ntitle = 'x'\nboom()\ncreate_issue('a', titel)"
    assert await errors(code) == ["4: name 'titel' is not defined; did you mean 'title'?"]


async def test_a_program_without_tools_is_left_to_python() -> None:
    assert await errors("x = 1\nprint(y)") == []


async def test_a_tool_of_a_server_that_still_lists_is_doubtful_only() -> None:
    for state, is_sure in ((UpstreamState.READY, True), (UpstreamState.CONNECTING, False)):
        found = await checked(
            "from servers.github import nope", Catalog.build([listing("github", *GITHUB, state=state)])
        )
        assert bool(found.errors) is is_sure
        assert bool(found.warnings) is not is_sure


async def test_errors_are_warnings_where_that_is_asked_for_and_nothing_where_that_is() -> None:
    code = "from servers.github import search_all"
    told = await checked(code, strictness="warnings")
    assert (told.errors, lines(told.warnings)) == ((), ['1: no tool "search_all" in servers.github; nearest: search'])
    assert await checked(code, strictness="none") == type(told)()


CAUGHT = [
    "try:\n    {}\nexcept Exception as e:\n    print(e)",
    "def attempt(f):\n    try:\n        return f()\n    except Exception as e:\n"
    "        return str(e)\nattempt(lambda: {})",
    "def one():\n    {}\ntry:\n    one()\nexcept Exception:\n    pass",
    "from contextlib import suppress\nwith suppress(Exception):\n    {}",
    "import asyncio\nasync def one():\n    {}\nasync def main():\n"
    "    await asyncio.gather(one(), return_exceptions=True)\nasyncio.run(main())",
    "import functools\ndef retry(f):\n    @functools.wraps(f)\n    def run():\n        try:\n            return f()\n"
    "        except Exception:\n            return None\n    return run\n@retry\ndef one():\n    {}\none()",
    "if False:\n    {}",
    "assert True, {}",
    "for n in range(2):\n    {}",
    "rows = [{} for n in range(2)]",
    "x = list_issues('a') or {}",
    "import servers.github\nif hasattr(servers.github, 'labl'):\n    {}",
    "def never():\n    {}",
    "import sys\nprint(1)\nsys.exit()\n{}",
    "class C:\n    def __enter__(self): return self\n    def __exit__(self, *a): return True\nwith C():\n    {}",
]


@pytest.mark.parametrize("around", CAUGHT)
async def test_a_failure_that_is_caught_or_never_reached_is_a_warning_at_most(around: str) -> None:
    code = "from servers.github import list_issues\n" + around.format("list_issues('a', labl=1)")
    assert all("labl" in line for line in await warnings(code))


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "def one():\n    {}\none()",
        "if {}:\n    pass",
        "import asyncio\nasync def main():\n    await asyncio.gather({})\nasyncio.run(main())",
        "def one():\n    {}\none()\ntry:\n    print(1)\nexcept Exception:\n    pass",
        "with open('/tmp/x', 'w') as f:\n    {}",
    ],
)
async def test_a_failure_that_nothing_catches_stops_the_program(around: str) -> None:
    code = "from servers.github import list_issues\n" + around.format("list_issues('a', labl=1)")
    (found,) = await errors(code)
    assert "has no argument 'labl'" in found


@pytest.mark.parametrize(
    "code",
    [
        "from servers.github import list_issues\nlist_issues = print\nlist_issues('a', labl=1)",
        "from servers.github import list_issues\ndef f(list_issues):\n    list_issues('a', labl=1)\nf(print)",
        "import servers.github as gh\ngh.list_issues = print\ngh.list_issues('a', labl=1)",
        "from servers.github import list_issues\nglobals()['list_issues'] = print\nlist_issues('a')",
        "try:\n    from servers.github import nope\nexcept ImportError:\n"
        "    from servers.github import list_issues as nope\nnope('a')",
        "exec('x = 1')\nfrom servers.github import boom\nboom(x)",
        "from math import *\nfrom servers.github import search\nsearch(str(pi))",
        "from servers.github import boom\nx: Undefined = 1\ndef f(a: Nowhere) -> Neither: ...\nboom()",
        "from servers.github import boom\ntype X = int\ndef f[T](a: T) -> T: return a\nboom()",
        "from servers.github import boom\nprint(__name__, __file__, ToolError, exit)\nboom()",
        "from servers.github import boom\nmatch [1]:\n    case [x, *rest]: print(x, rest)\n"
        "    case {'a': y, **more}: print(y, more)\nboom()",
        "import skills.triage\nfrom skills.triage import triage\ntriage('a')",
    ],
)
async def test_what_a_name_means_is_not_guessed(code: str) -> None:
    assert (await checked(code)).errors == ()


HANDLED = "try:\n    {}\nexcept ToolError:\n    pass"
STARTING = Catalog.build([listing("slow", state=UpstreamState.CONNECTING), listing("github", *GITHUB)])


@pytest.mark.parametrize(
    ("code", "made", "has_succeeded", "is_shown"),
    [
        ("from servers.slow import charge", [], True, False),
        ("import servers.slow as s\ns.charge()", ["slow.charge"], False, False),
        ("from servers.slow import charge", [], False, True),
        ("from servers.slow import charge", ["slow.charge", "slow.charge failed"], False, True),
        (HANDLED.format("from servers.github import grown"), ["github.grown"], True, False),
        (HANDLED.format("from servers.github import grown"), ["github.boom"], True, True),
        (HANDLED.format("from servers.added import new"), ["added.new"], True, False),
        (HANDLED.format("from servers.added import new"), [], True, True),
        ("from servers.github import boom\n" + HANDLED.format("boom()"), ["github.boom"], True, False),
        ("from servers.github import boom\n" + HANDLED.format("boom()"), ["github.boom failed"], True, True),
    ],
)
async def test_a_warning_that_the_run_refuted_is_not_shown(
    code: str, made: list[str], *, has_succeeded: bool, is_shown: bool
) -> None:
    """The server became ready, the tool was listed or permitted meanwhile, or the program went well without it."""
    found = await checked(code, STARTING, permissions={"rules": [{"deny": "github/boom"}]})
    calls = ExecutionCalls(ExecutionId("x"), Caller.of(Session("s"), LiveConfig()))
    for number, (title, _, failed) in enumerate(it.partition(" ") for it in made):
        status = CallStatus.FAILED if failed else CallStatus.SUCCEEDED
        calls.reports.append(CallReport(number, *title.partition(".")[::2], status, 1.0))
    is_refuted = partial(refutes, calls, has_succeeded=has_succeeded)
    assert found.warnings, "control"
    assert bool(found.warning_lines(is_refuted)) is is_shown
    assert not found.warning_lines(error="; ".join(it.message for it in found.warnings)), "the error says it"
