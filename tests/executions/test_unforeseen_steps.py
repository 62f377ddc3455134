"""Static analysis of a dry run's program: which branches and loops depend on results that it could not know."""

from __future__ import annotations

import pytest

from codemode_server.executions.unforeseen_steps import unforeseen_steps

HEAD = "from servers.tracker import create as make, close, find\n"
CAPTURED = {"create"}


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("made = make()\nif made['ok']:\n    close(n=1)", [3]),
        ("made = make()\nfor it in made:\n    close(n=it)", [3]),
        ("[close(n=it) for it in make()]", [2]),
        ("close.map(make())", [2]),
        ("while make():\n    pass\nelse:\n    close(n=1)", [2]),
        ("rest = []\nrest.append(make())\nif rest[0]: close(n=1)", [4]),
        ("def end(x):\n    if x:\n        close(n=x)\nend(make())", [3]),
        ("def get():\n    return make()\nif get(): close(n=1)", [4]),
        ("made = make()\nif made:\n    raise SystemExit", [3]),
        ("match make():\n    case 1: close(n=1)", [2]),
        ("import servers.tracker as t\nif t.create(): t.close(n=1)", [3]),
        ("found = find()\nif found:\n    close(n=1)", []),
        ("made = make()\nif made: print('nothing called')", []),
        ("made = make()\nclose(n=made)", []),
        ("this is no Python", []),
    ],
)
def test_a_step_is_named_by_its_line_if_it_decides_about_calls(body: str, lines: list[int]) -> None:
    found = unforeseen_steps(HEAD + body, CAPTURED)
    assert [int(line.split(":")[0].removeprefix("line ")) for line in found] == lines


def test_without_captured_calls_everything_is_foreseen() -> None:
    assert unforeseen_steps(HEAD + "if make(): close(n=1)", CAPTURED)
    assert unforeseen_steps(HEAD + "if make(): close(n=1)", set()) == []
