"""Each limit of upstream.yaml, reached by a program through the whole product: it ends with an error that names the
limit, and the next program runs as if nothing had been."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from .product import configuration, in_memory, office

pytestmark = pytest.mark.slow

SHEET = "from servers.google_drive import get_sheet\nrows = get_sheet(sheetId='a')\nlen(rows)"
MAP = "list_issues.map([{'repo': str(n)} for n in range(9)])"
MANY = "from servers.github import list_issues\nfor n in range(6): list_issues(repo=str(n))"


@pytest.mark.parametrize(
    ("limit", "control", "code"),
    [
        ({"wall_seconds": 1}, "import time; time.sleep(0.1)", "while True: pass"),
        ({"memory_mb": 96}, "len(bytearray(1_000_000))", "x = []\nwhile True: x.append(bytearray(1_000_000))"),
        ({"output_bytes": 5_000, "call_bytes": 5_000}, "print('x' * 4_000)", "while True: print('x' * 100)"),
        ({"calls": 5}, MANY.replace("6", "5"), MANY),
        ({"value_bytes": 5_000, "call_bytes": 5_000}, "'x' * 4_000", "'x' * 6_000"),
        (
            {"workspace_mb": 2},
            "open('/workspace/a', 'wb').write(bytes(1_000_000))",
            "open('/workspace/b', 'wb').write(bytes(4_000_000))\nimport time; time.sleep(5)",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_a_program_past_a_limit_ends_with_an_error_that_names_it(
    tmp_path: Path, limit: dict[str, Any], control: str, code: str
) -> None:
    servers = office(tmp_path, "github") if "servers" in code else {}
    async with in_memory(configuration(tmp_path, servers, limits=limit)) as host:
        assert (await host.run(control)).content["status"] == "succeeded", "control: below the limit nothing ends"
        answer = await host.run(code)
        name = next(iter(limit))
        assert answer.content["status"] == "limit_exceeded", answer.text
        assert answer.error["setting"] == f"limits.{name}"
        assert answer.text.count(f"the user can raise limits.{name}") == 1
        assert "upstream.yaml" not in answer.text
        assert (await host.run("1 + 1")).value == 2


@pytest.mark.parametrize(
    ("limit", "code", "part"), [("value_bytes", "'x' * 6_000", ""), ("output_bytes", "print('x' * 6_000)", "/stdout")]
)
async def test_a_value_or_output_past_its_limit_is_cut_and_the_whole_can_be_read(
    tmp_path: Path, limit: str, code: str, part: str
) -> None:
    async with in_memory(configuration(tmp_path, {}, limits={limit: 2_000})) as host:
        answer = await host.run(code)
        assert answer.content["status"] == "succeeded", answer.text
        assert 1_000 < answer.text.count("x") < 2_000
        whole = f'results["{answer.content["execution_id"]}{part}"]'
        assert whole in answer.text
        assert (await host.run(f"from codemode import results\nlen({whole})")).value >= 6_000
    async with in_memory(configuration(tmp_path, {})) as host:
        assert (await host.run(code)).text.count("x") >= 6_000, "control: below the limit it is shown whole"


async def test_the_limit_on_calls_can_be_caught_and_what_was_read_returned(tmp_path: Path) -> None:
    code = (
        "from servers.github import list_issues\nfound = []\ntry:\n    for n in range(9):\n"
        "        found.append(list_issues(repo=str(n)))\nexcept LimitExceeded:\n    pass\nlen(found)"
    )
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"), limits={"calls": 5})) as host:
        assert (await host.run(code)).value == 5
        assert len(host.reached("list_issues")) == 5


@pytest.mark.parametrize("many", ["await asyncio.gather(*[list_issues(repo=str(n)) for n in range(9)])", MAP])
async def test_calls_in_flight_at_the_limit_are_answered_before_the_program_knows_of_it(
    tmp_path: Path, many: str
) -> None:
    code = f"import asyncio\nfrom servers.github import list_issues\ntry:\n    {many}\nexcept LimitExceeded: pass\n1"
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"), limits={"calls": 5})) as host:
        answer = await host.run(code)
        assert answer.value == 1
        assert [call["status"] for call in answer.content["calls"]] == ["succeeded"] * 5
        assert len(host.reached("list_issues")) == 5


async def test_a_map_at_the_limit_has_what_succeeded_in_ok_and_all_else_in_errors(tmp_path: Path) -> None:
    code = (
        f"from servers import LimitExceeded\nfrom servers.github import list_issues\ntry:\n    {MAP}\n"
        "except LimitExceeded as error:\n    got = error.items\n"
        "[len(got), len(got.ok), {n: type(e).__name__ for n, e in got.errors.items()}]"
    )
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"), limits={"calls": 5})) as host:
        assert (await host.run(code)).value == [9, 5, {str(n): "LimitExceeded" for n in range(5, 9)}]


async def test_a_program_that_calls_again_after_the_limit_gets_another_hint(tmp_path: Path) -> None:
    again = "try:\n    while True: list_issues(repo='a')\nexcept LimitExceeded: list_issues(repo='b')"
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"), limits={"calls": 2})) as host:
        first = await host.run("from servers.github import list_issues\nwhile True: list_issues(repo='a')")
        assert "catch LimitExceeded (no import needed" in first.text
        assert "asyncio.gather needs return_exceptions=True" in first.text
        rest = f'or do the rest in another program, from results["{first.content["execution_id"]}"].calls'
        assert rest in first.text
        second = await host.run(f"from servers.github import list_issues\n{again}")
        assert "after LimitExceeded, call no more tools" in second.text
        assert "catch LimitExceeded" not in second.text


async def test_a_value_past_what_is_stored_is_described(tmp_path: Path) -> None:
    rows = "[{'id': n, 'name': 'row'} for n in range(1_000)]"
    async with in_memory(configuration(tmp_path, {}, limits={"value_bytes": 5_000, "call_bytes": 5_000})) as host:
        answer = await host.run(rows)
        assert "it is a list of 1000 items, which are dicts with the keys 'id', 'name'" in answer.text


async def test_the_user_is_not_asked_to_raise_a_limit_that_no_setting_raises(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, {})) as host:
        answer = await host.run("[0] * 600_000")
    assert "the value holds more than 500,000 values" in answer.text
    assert "return a summary" in answer.text
    assert "the user can raise" not in answer.text


async def test_output_and_values_as_long_as_may_be_are_read_whole(tmp_path: Path) -> None:
    """The regression: as JSON in one frame they were past the limit on a call's result, and could not be read."""
    line = "lineé\n"
    printed, value = f"print({line!r} * 1_500_000)", f"[{line!r} * 100] * 15_000"
    async with in_memory(configuration(tmp_path, {}, limits={"output_bytes": 2**24, "value_bytes": 2**24})) as host:
        outputs = [(await host.run(code)).content["execution_id"] for code in (printed, value)]
        code = "from codemode import results\n"
        assert (await host.run(f"{code}text = results['{outputs[0]}/stdout']\n[len(text), text[-7:]]")).value == [
            9_000_001,
            f"{line}\n",
        ]
        assert (await host.run(f"{code}rows = results['{outputs[1]}']\n[len(rows), rows[-1][-6:]]")).value == [
            15_000,
            line,
        ]


async def test_a_result_past_its_size_is_an_error_that_the_program_can_catch(tmp_path: Path) -> None:
    servers = office(tmp_path, "github", "google_drive")
    async with in_memory(configuration(tmp_path, servers, limits={"call_bytes": 100_000})) as host:
        assert (await host.run("from servers.github import list_issues\nlen(list_issues(repo='a'))")).value == 5
        answer = await host.run(SHEET)
        assert answer.error["type"] == "ToolError"
        assert "limits.call_bytes" in answer.error["message"]


async def test_time_spent_waiting_for_upstreams_counts_apart(tmp_path: Path) -> None:
    """A second of waiting does not touch half a second of the program's own time; it has a limit of its own."""
    servers = office(tmp_path, "slow")
    wait = "from servers.slow import wait\nwait(seconds={seconds})"
    limits = {"wall_seconds": 0.6, "upstream_seconds": 2}
    async with in_memory(configuration(tmp_path, servers, limits=limits)) as host:
        assert (await host.run(wait.format(seconds=1.2))).value == 1.2
        answer = await host.run(wait.format(seconds=30))
    assert answer.error["setting"] == "limits.upstream_seconds"
    assert answer.content["calls"][0]["status"] == "cancelled"


async def test_a_call_that_the_program_gave_up_is_told_apart_from_one_that_ended_with_it(tmp_path: Path) -> None:
    call = "import asyncio\nfrom servers.slow import wait\n"
    caught = f"{call}try: await asyncio.wait_for(wait(seconds=30), 0.2)\nexcept TimeoutError: pass\n'went on'"
    async with in_memory(configuration(tmp_path, office(tmp_path, "slow"))) as host:
        answer = await host.run(caught)
        told = "cancelled by the program before the answer; the server may still have done it"
        assert (answer.value, answer.content["calls"][0]["error"]) == ("went on", told)
        assert told in answer.text
        ended = await host.run(f"{call}await asyncio.wait_for(wait(seconds=30), 0.2)")
        assert "the program ended before the answer" in ended.text


async def test_calls_past_those_in_flight_wait_for_their_turn(tmp_path: Path) -> None:
    """A gather over many calls is no fault of a program: it is slowed down, not ended."""
    code = (
        "import asyncio\nfrom servers.slow import wait, most_at_once\n"
        "await asyncio.gather(*[wait(seconds=0.1) for _ in range(12)])\nmost_at_once()"
    )
    async with in_memory(configuration(tmp_path, office(tmp_path, "slow"), limits={"calls_in_flight": 3})) as host:
        assert (await host.run(code)).value == 3
    async with in_memory(configuration(tmp_path, office(tmp_path, "slow"))) as host:
        assert (await host.run(code)).value > 3, "control: without the limit more are on their way"


async def test_programs_past_those_at_once_wait_and_then_are_refused(tmp_path: Path) -> None:
    servers = office(tmp_path, "slow")
    wait = "from servers.slow import wait\nwait(seconds={seconds})"
    limits = {"programs": 1, "queue_seconds": 60.0}
    async with in_memory(configuration(tmp_path, servers, limits=limits)) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.run, wait.format(seconds=0.3))
        await host.until(lambda: len(host.reached("wait")) == 1)
        assert (await host.run("1 + 1")).value == 2, "control: one that ends in time lets the next one in"
    limits["queue_seconds"] = 0.5
    async with in_memory(configuration(tmp_path, servers, limits=limits)) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.run, wait.format(seconds=60))
        await host.until(lambda: len(host.reached("wait")) == 2)
        answer = await host.run("1 + 1")
        assert answer.error["setting"] == "limits.programs"
        assert "limits.queue_seconds" in answer.error["message"]
        tasks.cancel_scope.cancel()


async def test_a_timeout_given_with_the_call_lowers_the_limit_and_cannot_raise_it(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, {}, limits={"wall_seconds": 5})) as host:
        answer = await host.run("x = 1\nwhile True:\n    x += 1\nx", timeout=0.5)
        assert answer.error["setting"] == "timeout"
        assert "timeout=0.5" in answer.error["message"]
        assert "upstream.yaml" not in answer.text, "no setting is to blame"
        refused = await host.run("1 + 1", timeout=50)
        assert "at most 5" in refused.text


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("def spin(n):\n    while n:\n        n += 1\n\nprint('begun')\nspin(1)\nprint('never')", 3),
        ("import time\nprint('begun')\ntime.sleep(60)\nprint('never')", 3),
        (
            "import asyncio\nasync def main():\n    print('begun')\n    await asyncio.sleep(60)\nasyncio.run(main())",
            4,
        ),
    ],
)
async def test_a_program_out_of_time_says_the_line_that_ran_and_loses_nothing_that_it_printed(
    tmp_path: Path, code: str, line: int
) -> None:
    async with in_memory(configuration(tmp_path, {}, limits={"wall_seconds": 5})) as host:
        answer = await host.run(code, timeout=0.7)
        assert answer.error["line"] == line
        assert f"line {line}" in answer.text
        assert "begun" in answer.text


async def test_a_call_that_a_limit_ends_is_listed_with_those_that_came_before(tmp_path: Path) -> None:
    code = "from servers.slow import wait\nwait(seconds=0.1)\nprint('begun')\nwait(seconds=30)"
    async with in_memory(configuration(tmp_path, office(tmp_path, "slow"), limits={"upstream_seconds": 1})) as host:
        answer = await host.run(code)
        assert [call["status"] for call in answer.content["calls"]] == ["succeeded", "cancelled"]
        assert answer.error["line"] == 4
        assert "begun" in answer.text


async def test_what_reaches_the_model_is_cut_in_the_middle_and_says_how_much(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, {}, limits={"output_tokens": 200})) as host:
        answer = await host.run("for n in range(5_000): print('line', n)")
    assert answer.content["status"] == "succeeded"
    stdout = answer.content["stdout"]
    assert stdout.startswith("line 0\n")
    assert stdout.rstrip().endswith("line 4999")
    assert re.search(r"\[… [\d,]+ of 5,000 lines left out, about [\d,]+ tokens …\]", stdout)
    (cut,) = answer.content["cut"]
    assert re.match(
        r"the whole output \(5,000 lines, [\d,]+ tokens\) is stored: .* results\[.x[0-9a-f]{12}/stdout.\]$", cut
    )
    assert len(stdout) < 2_000
