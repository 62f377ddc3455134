"""Threat: a program spells arguments so that a condition of a rule misses them, or exceeds a limit by calls at once.

Rule: a condition sees exactly what is sent, and what it can't judge counts against the call. The proof is the log of
the upstream. What only the upstream takes for the same (another case, a list of one) is kept out by rules that allow;
the last test says what a rule that denies can't do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.attacks.kit import RAW
from tests.behaviour.product import PLAIN, Host, configuration, in_memory_for_all

UPSTREAM = (
    PLAIN
    + """
server, log = Server("bank"), sys.argv[1]
OPEN = {"type": "object", "additionalProperties": True}

def note(tool, given):
    import json
    with open(log, "a") as file:
        file.write(json.dumps([tool, given]) + "\\n")
    return "done"

@server.tool(inputSchema=OPEN)
def pay(**given: str) -> str:
    return note("pay", given)

@server.tool(inputSchema=OPEN)
def transfer(**given: str) -> str:
    return note("transfer", given)

@server.tool(inputSchema=OPEN)
def wipe(**given: str) -> str:
    return note("wipe", given)

@server.tool(inputSchema=OPEN)
def burst(**given: str) -> str:
    return note("burst", given)

@server.tool(inputSchema=OPEN)
def hourly(**given: str) -> str:
    return note("hourly", given)

server.run()
"""
)
pytestmark = pytest.mark.asyncio(loop_scope="module")
RULES = [
    {"allow": "bank/pay", "when": 'args.owner == "acme"'},
    {"allow": "bank/transfer", "when": "args.amount >= 0 && args.amount < 100"},
    {"deny": "bank/wipe", "when": 'args.path.startsWith("/etc")'},
    {"allow": "bank/wipe"},
    {"allow": "bank/burst", "limit": "5/execution"},
    {"allow": "bank/hourly", "limit": "7/hour"},
]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def bank(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    folder = tmp_path_factory.mktemp("bank")
    (folder / "bank.py").write_text(UPSTREAM)
    servers = {"bank": {"command": sys.executable, "args": [str(folder / "bank.py"), str(folder / "bank.log")]}}
    async with in_memory_for_all(
        configuration(folder, servers, permissions={"default": "deny", "rules": RULES})
    ) as host:
        yield host


def arrived(folder: Path, tool: str) -> list[dict[str, Any]]:
    log = folder / "bank.log"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [given for name, given in lines if name == tool]


async def sent(host: Host, tool: str, frames: list[str]) -> list[dict[str, Any]]:
    """Send these arguments, as JSON texts, on the raw channel; gives what arrived."""
    code = (
        RAW
        + f"""
for number, arguments in enumerate({frames!r}, start=1):
    raw.send('{{"op": "call", "id": %d, "server": "bank", "tool": "{tool}", "arguments": %s}}' % (number, arguments))
    receive()
"""
    )
    before = len(arrived(host.folder, tool))
    answer = await host.run(code)
    assert answer.content["status"] == "succeeded", answer.text
    return arrived(host.folder, tool)[before:]


@pytest.mark.evasion
async def test_an_owner_that_only_looks_like_the_allowed_one_does_not_pass(bank: Host) -> None:
    others = [
        *(
            {"owner": it}
            for it in ("ACME", "acme ", " acme", "acme\0", "\uff41cme", "\u0430cme", "a\u200bcme", "", None)
        ),
        *({"owner": it} for it in (["acme"], {"acme": 1}, {"$eq": "acme"}, True, 1)),
        *({it: "acme"} for it in ("Owner", "owner ", "args.owner", "own\u200ber")),
        {"args": {"owner": "acme"}},
        {},
    ]
    texts = [json.dumps(it) for it in others]
    texts += ['{"owner": "acme", "owner": "evil"}', '{"owner": "\\ud800"}', '{"owner": "acme", "owner\\u0000": "evil"}']
    assert await sent(bank, "pay", texts) == []
    right = [json.dumps({"owner": "acme"}), '{"owner": "\\u0061cme"}', '{"owner": "evil", "owner": "acme"}']
    assert await sent(bank, "pay", right) == [{"owner": "acme"}] * 3, "control"


@pytest.mark.evasion
async def test_a_number_that_is_none_or_too_large_does_not_pass(bank: Host) -> None:
    numbers = ['"50"', "100", "1e2", "-1", "-0.001", "true", "null", "[50]", "9" * 30, "-" + "9" * 30]
    assert await sent(bank, "transfer", [f'{{"amount": {it}}}' for it in numbers]) == []
    right = [f'{{"amount": {it}}}' for it in ("0", "-0.0", "99.999", "5e1", "1E+1")]
    assert len(await sent(bank, "transfer", right)) == len(right), "control"


@pytest.mark.evasion
async def test_what_a_condition_cannot_judge_is_denied_by_a_rule_that_denies(bank: Host) -> None:
    many, deep = json.dumps([0] * 60_000), "[" * 100 + "]" * 100
    texts = [
        *(json.dumps({"path": it}) for it in ("/etc", "/etc/passwd", None, 5, ["/etc"], {"a": "/etc"}, True)),
        "{}",
        '{"Path": "/etc"}',
        '{"path": "\\u002fetc"}',
        '{"path": "/home", "path": "/etc"}',
        '{"path": "/\\u0000etc"}',
        f'{{"path": "/home", "x": {many}}}',
    ]
    assert await sent(bank, "wipe", texts) == []
    right = ['{"path": "/home"}', f'{{"path": "/home", "x": {deep}}}']
    assert len(await sent(bank, "wipe", right)) == 2, "control"


@pytest.mark.evasion
async def test_calls_at_the_same_time_cannot_exceed_a_limit(bank: Host) -> None:
    code = (
        RAW
        + """
for number in range(1, 61):
    send(op="call", id=number, server="bank", tool="burst", arguments={"n": number})
replies = [receive() for _ in range(60)]
[sum(it["ok"] for it in replies), next(it["message"] for it in replies if not it["ok"])]
"""
    )
    count, message = (await bank.run(code)).value
    assert count == 5
    assert "its limit of 5/execution is reached" in message
    assert len(arrived(bank.folder, "burst")) == 5
    assert (await bank.run(code)).value[0] == 5, "control: the next program has a limit of its own"


@pytest.mark.evasion
async def test_further_programs_cannot_exceed_a_limit_of_time(bank: Host) -> None:
    code = """
import asyncio
from servers.bank import hourly
done = await asyncio.gather(*(hourly(n=n) for n in range(4)), return_exceptions=True)
sum(not isinstance(it, Exception) for it in done)
"""
    assert [(await bank.run(code)).value for _ in range(3)] == [4, 3, 0]
    assert len(arrived(bank.folder, "hourly")) == 7


@pytest.mark.parametrize("path", ["/ETC/passwd", "//etc/passwd", "/home/../etc/passwd", "etc/passwd"])
async def test_another_spelling_of_the_same_thing_passes_a_rule_that_denies(bank: Host, path: str) -> None:
    """What the server takes for the same is not known here; the guide says to write what is allowed."""
    assert await sent(bank, "wipe", [json.dumps({"path": path})]) == [{"path": path}]
