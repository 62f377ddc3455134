"""Threat: a program spells its arguments so that a condition that allows something admits something else.

Rule: only what the condition says arrives at the upstream, exactly as it was judged. The conditions are those of the
guide; each has arguments that it admits, as the control. They go out as JSON texts on the channel beneath the guest.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from tests.attacks.kit import RAW
from tests.behaviour.product import PLAIN, Host, configuration, in_memory_for_all

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Case:
    """A condition, JSON texts of arguments that it must not admit, and some that it must."""

    when: str
    refused: list[str]
    admitted: list[Any]
    texts: list[str] = field(default_factory=list)
    """Admitted as well, as JSON texts."""
    answer: str = "allow"


def texts(name: str, *values: Any) -> list[str]:
    return [json.dumps({name: value}) for value in values]


CASES = {
    "the case": Case(
        'args.owner == "acme"',
        texts("owner", "Acme", "ACME", "aCME", "acme\n", "acme\r", "\tacme"),
        [{"owner": "acme"}],
    ),
    "letters that look alike": Case(
        'args.owner.lowerAscii() in ["kim"]',
        texts("owner", "\u212aim", "k\u0131m", "K\u0130M", "k\u0456m", "\uff2bim", "k\u200dim", "kim\u00ad"),
        [{"owner": "KIM"}, {"owner": "kim"}],
    ),
    "percent-encoding": Case(
        'args.url.startsWith("https://acme.example/")',
        texts(
            "url",
            "https://acme.example%2f@evil.example/",
            "https://acme.example.evil.example/",
            "https://acme.example@evil.example/",
            "https:%2f%2facme.example/",
            "HTTPS://acme.example/",
            "https:\\\\acme.example/",
            " https://acme.example/",
        ),
        [{"url": "https://acme.example/%2e%2e"}],
    ),
    "a number": Case(
        "args.n == 1",
        [*texts("n", "1", True, None, [1], {"1": 1}, 1.0000000001, 2), "{}", '{"n": 1, "n": 2}', '{"N": 1}'],
        [{"n": 1}, {"n": 1.0}],
        ['{"n": 1e0}', '{"n": 10E-1}', '{"n": 2, "n": 1}'],
    ),
    "null for missing": Case(
        "!has(args.force) || args.force == false",
        texts("force", None, 0, "", "false", [], {}, True),
        [{}, {"force": False}, {"Force": True}],
    ),
    "the start of a statement": Case(
        "args.sql.matches('^(?i:select) [a-z, ]+ from [a-z]+$')",
        texts(
            "sql",
            "select a from b; drop table c",
            "select a from b\ndelete from c",
            "select a from b\n",
            "select\u00a0a from b",
            "select a/**/from b",
            "with x as (select 1) select a from b",
        ),
        [{"sql": "SELECT a, b from c"}],
    ),
    "what a rule that denies can't judge": Case(
        'args.path.startsWith("/etc")',
        [
            *texts("path", "/etc", None, 5, ["/etc"], {"a": "/etc"}),
            *("{}", '{"Path": "/etc"}', '{"path": "\\u002fetc"}', '{"path": "/home", "path": "/etc"}'),
            f'{{"path": "/home", "x": {[0] * 60_000}}}',
        ],
        [{"path": "/home"}, {"path": "/ETC"}],
        answer="deny",
    ),
}
UPSTREAM = (
    PLAIN
    + """
server, log = Server("desk"), sys.argv[1]

def offer(name):
    def act(**given: str) -> str:
        import json
        with open(log, "a") as file:
            file.write(json.dumps([name, given]) + "\\n")
        return "done"
    act.__name__ = name
    server.tool("Act.", inputSchema={"type": "object", "additionalProperties": True})(act)

for number in range(int(sys.argv[2])):
    offer(f"act{number}")
server.run()
"""
)
TOOLS = {name: f"act{number}" for number, name in enumerate(CASES)}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    folder = tmp_path_factory.mktemp("desk")
    (folder / "desk.py").write_text(UPSTREAM)
    arguments = [str(folder / "desk.py"), str(folder / "desk.log"), str(len(CASES))]
    servers = {"desk": {"command": sys.executable, "args": arguments}}
    rules: list[dict[str, str]] = [
        {case.answer: f"desk/{TOOLS[name]}", "when": case.when} for name, case in CASES.items()
    ]
    rules += [{"allow": f"desk/{TOOLS[name]}"} for name, case in CASES.items() if case.answer == "deny"]
    permissions = {"default": "deny", "rules": rules}
    async with in_memory_for_all(configuration(folder, servers, permissions=permissions)) as host:
        yield host


async def sent(host: Host, tool: str, frames: list[str]) -> list[dict[str, Any]]:
    """Send these arguments; gives what arrived."""
    log = host.folder / "desk.log"
    before = log.read_text().count("\n") if log.exists() else 0
    code = (
        RAW
        + f"""
for number, arguments in enumerate({frames!r}, start=1):
    raw.send('{{"op": "call", "id": %d, "server": "desk", "tool": "{tool}", "arguments": %s}}' % (number, arguments))
    receive()
"""
    )
    answer = await host.run(code)
    assert answer.content["status"] == "succeeded", answer.text
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line)[1] for line in lines[before:]]


@pytest.mark.evasion
@pytest.mark.parametrize("spelling", CASES)
async def test_a_condition_admits_what_it_says_and_no_other_spelling(desk: Host, spelling: str) -> None:
    case = CASES[spelling]
    assert await sent(desk, TOOLS[spelling], case.refused) == []
    admitted = [*map(json.dumps, case.admitted), *case.texts]
    assert len(await sent(desk, TOOLS[spelling], admitted)) == len(admitted), "control"


@pytest.mark.evasion
async def test_arguments_that_are_too_large_to_be_judged_are_not_sent(desk: Host) -> None:
    code = f"import codemode\ncodemode.call('desk', '{TOOLS['the case']}', {{'owner': 'acme', 'x': [0] * MANY}})"
    assert "done" in (await desk.run(code.replace("MANY", "1_000"))).text, "control"
    assert "is not permitted" in (await desk.run(code.replace("MANY", "60_000"))).text
