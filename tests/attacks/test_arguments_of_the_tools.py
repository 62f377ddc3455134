"""Threat: arguments of the four tools that are no arguments: wrong types, no end, paths out of where they lead.

Rule: each is answered, by a sentence that says what is right; nothing of the host's files is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio

from tests.attacks.kit import hostile, is_well
from tests.behaviour.product import configuration, in_memory

CANARY = "canary-of-the-host-77"


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("execute_code", {"code": 5}),
    ("execute_code", {"code": "1", "timeout": 10**400}),
    ("execute_code", {"code": "1", "timout": 1}),
    ("execute_code", {"code": "1", "\ud800": 1}),
    ("search_tools", {"query": {"a": 1}}),
    ("list_dir", {"path": "/servers?page=99999999999999999999"}),
    ("list_dir", {"path": "x" * 2_000_000}),
    ("list_dir", {"path": "/workspace/\ud800"}),
    ("read_tool", {"path": "a," * 100_000}),
    ("read_tool", {"path": "/servers/plain/act.py:" + "9" * 5_000}),
    ("read_tool", {"path": "/workspace/" + "n" * 300}),
]


async def test_wrong_arguments_are_answered_with_what_is_right(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, hostile(tmp_path, "plain"))) as host:
        assert "act.py" in (await host.call("list_dir", path="/servers/plain")).text, "control"
        assert "def act" in (await host.call("read_tool", path="/servers/plain/act.py")).text, "control"
        assert "act" in (await host.call("search_tools", query="act")).text, "control"
        for tool, arguments in WRONG:
            with anyio.fail_after(60):
                answer = await host.call(tool, **arguments)
            assert answer.result.is_error, (tool, str(arguments)[:200], answer.text[:500])
            assert 5 < len(answer.text) < 3_000, (tool, str(arguments)[:200])
            answer.text.encode()
        await is_well(host)


OUT = [
    "/workspace/../../../canary.txt",
    "/workspace/..%2f..%2f..%2fcanary.txt",
    "/workspace/%2e%2e/%2e%2e/%2e%2e/canary.txt",
    "/skills/../canary.py",
    "/skills/linked.py",
    "/skills/_hidden.py",
    "/servers/plain/../../canary.txt",
    "file:///etc/passwd",
    "/workspace/../../../../../../../../../../etc/passwd",
    "/proc/self/environ",
]


async def test_no_path_leads_out(tmp_path: Path) -> None:
    (tmp_path / "canary.txt").write_text(f"root:{CANARY}")
    (tmp_path / "canary.py").write_text(f"'{CANARY}'")
    skills = tmp_path / "skills"
    skills.mkdir()
    (skills / "good.py").write_text("'good'")
    (skills / "_hidden.py").write_text(f"'{CANARY}'")
    (skills / "linked.py").symlink_to(tmp_path / "canary.py")
    async with in_memory(configuration(tmp_path, hostile(tmp_path, "plain"))) as host:
        assert "good" in (await host.call("read_tool", path="/skills/good.py")).text
        await is_well(host)  # makes the workspace
        for path in OUT:
            for tool in ("read_tool", "list_dir"):
                for spelling in (path, f"{path}:1-5", f"good,{path}"):
                    answer = await host.call(tool, path=spelling)
                    assert CANARY not in answer.text, spelling
                    assert "root:" not in answer.text, spelling
        modules = [path.strip("/").removesuffix(".py").replace("/", ".") for path in OUT]
        answer = await host.run(
            f"""
import importlib
found = []
for name in {modules!r}:
    try:
        found.append(repr(vars(importlib.import_module(name))))
    except (ImportError, ValueError, TypeError) as error:
        found.append(repr(error))
import skills.good
found
"""
        )
        assert len(answer.value) == len(OUT)
        assert CANARY not in answer.text
