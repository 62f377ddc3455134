"""A program that fails loses no work: the results of its succeeded calls can be read by the next program of its
session, under the numbers that the report shows; bounded as all that is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from .product import Answer, Host, configuration, in_memory, office

pytestmark = pytest.mark.slow

READ = "from servers.github import list_issues, boom\n"
ENDINGS = {
    "error": ("1 / 0", {}),
    "failed call": ("boom()", {}),
    "time": ("while True: pass", {"wall_seconds": 1}),
    "calls": ("while True: list_issues(repo='c')", {"calls": 2}),
}


def name_of(answer: Answer) -> str:
    return f'results["{answer.content["execution_id"]}"]'


async def read(host: Host, expression: str) -> Answer:
    return await host.run(f"from codemode import results\n{expression}")


@pytest.mark.parametrize("ending", ENDINGS)
async def test_the_results_of_calls_are_read_by_the_next_program_however_it_failed(tmp_path: Path, ending: str) -> None:
    last, limits = ENDINGS[ending]
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"), limits=limits)) as host:
        control = await host.run(READ + "list_issues(repo='b')")
        failed = await host.run(READ + f"a = list_issues(repo='a')\nb = list_issues(repo='b')\n{last}")
        assert failed.content["status"] in ("failed", "limit_exceeded")
        assert '[2] github.list_issues(repo="b") succeeded' in failed.text
        assert f"from codemode import results; {name_of(failed)}.calls[1]" in failed.text
        assert (await read(host, f"{name_of(failed)}.calls[2]")).value == control.value
        assert (await read(host, f"list({name_of(failed)}.calls)")).value == [1, 2]
        assert len(host.reached("list_issues")) == 3, "nothing was called again"
