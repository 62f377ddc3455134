"""The layout shows the architecture, and this keeps it so: each stage imports only stages below it, and there is one
way to an upstream."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "codemode_server"
LIVE = "codemode_server.config.live."
SETTINGS = "codemode_server.config.settings."
"""Every stage may read the configuration in force and its models, and nothing else of `config`."""
STAGES = ("mcp_server", "executions", "calls", "upstreams", "sandbox", "search", "catalog")
"""In the order in which data flows down; an import points further down the list."""
BENEATH = {"domain", "processes", "support"}
USE_SECRETS = {"config", "upstreams"}
"""The configuration refers to secrets, and connections store the tokens of a sign-in; nobody else reads one."""
WIRING = {"__main__", "app", "startup", "shim", "cli", "records"}
MADE_OF = (
    "codemode_server.sandbox.registry.",
    "codemode_server.upstreams.transports.registry.",
    "codemode_server.mcp_server.tools.registry.",
    "codemode_server.mcp_server.http_settings.",
    "codemode_server.calls.policy.settings.",
    "codemode_server.catalog.naming.",
    "codemode_server.catalog.labels.",
)
"""What the settings are made of and checked against: descriptions of implementations, models, and names of servers."""
HELD = {"calls.audit"}
"""What `storage` may know beside what is beneath it: the values that it holds."""


@cache
def tree(path: Path) -> ast.Module:
    """A module, parsed once for all tests."""
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(path)))


def imports(path: Path) -> Iterator[str]:
    """The dotted names of our own modules that a file imports, wherever in it."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("codemode_server"):
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("codemode_server"))


def stage_of(dotted: str) -> str:
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else ""


FILES = sorted(path for path in PACKAGE.rglob("*.py") if "guest" not in path.parts)


def test_modules_import_nothing_of_the_stages_above_them() -> None:
    for path in FILES:
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if own in WIRING or own == "features":
            continue
        names = [
            name
            for name in imports(path)
            if stage_of(name) not in ("features", own, "", "__version__", *BENEATH)
            if not f"{name}.".startswith((LIVE, SETTINGS))
        ]
        if own == "storage":
            modules = {name.rsplit(".", 1)[0].removeprefix("codemode_server.") for name in names}
            assert modules <= HELD, path
            continue
        used = {stage_of(name) for name in names if own != "config" or not f"{name}.".startswith(MADE_OF)}
        allowed = {"secrets"} if own in USE_SECRETS else set()
        if own in STAGES:
            allowed |= {*STAGES[STAGES.index(own) + 1 :], "storage"}  # they say which store they are given
        assert used <= allowed, f"{path} must not import {', '.join(sorted(used - allowed))}"


def test_no_stage_imports_a_feature_and_no_feature_another() -> None:
    """What is left of both; a line that goes may not come back."""
    arrows: dict[str, set[str]] = {}
    for path in FILES:
        parts = path.relative_to(PACKAGE).parts
        own = parts[1].removesuffix(".py") if parts[0] == "features" else parts[0].removesuffix(".py")
        for name in imports(path):
            if not name.startswith("codemode_server.features.") or own in WIRING:
                continue
            if name.split(".")[2] in ("FEATURES", "create", "provided"):  # who asks the list names no feature
                continue
            if (feature := name.split(".")[2]) != own:
                arrows.setdefault(own, set()).add(feature)
    assert {own: sorted(others) for own, others in arrows.items()} == LEFT


LEFT: dict[str, list[str]] = {
    "guardrails": ["privacy"],  # the guardrail `personal_data`, imported if it is used, searches as privacy does
    "pages": ["changed_tools"],  # the page of servers is the page of their reviews
}


@pytest.mark.parametrize("name", ["sandbox.backends", "upstreams.transports", "mcp_server.tools"])
def test_only_the_registry_knows_the_implementations(name: str) -> None:
    """So adding one changes nothing else; the registry of sandboxes is beside its folder."""
    folder, registry = PACKAGE.joinpath(*name.split(".")), PACKAGE / "sandbox" / "registry.py"
    known = {
        dotted
        for path in FILES
        if not path.is_relative_to(folder) and path != registry
        for dotted in imports(path)
        if dotted.startswith(f"codemode_server.{name}.") and not f"{dotted}.".startswith(MADE_OF)
    }
    assert not known


def test_the_guest_imports_nothing_of_the_host() -> None:
    for path in (PACKAGE / "sandbox" / "guest").rglob("*.py"):
        assert not list(imports(path)), path.name


def test_only_one_module_calls_an_upstream() -> None:
    """There is no other way to an upstream: nobody else so much as names the method."""
    callers = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in ("call_tool", "read_resource")
        if path.relative_to(PACKAGE).parts[0] not in ("upstreams", "mcp_server")
    }
    assert callers == {"calls/targets.py"}


def test_processes_are_started_in_one_way_or_waited_for_in_a_thread() -> None:
    """anyio's own function leaves a process behind if it is cancelled; `Popen` is for code that blocks."""
    starters = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Call)
        if (name := ast.unparse(node.func).rpartition(".")[2]) in ("open_process", "run_process", "Popen")
    }
    assert starters == {
        ("processes/child_process.py", "open_process"),
        ("processes/child_process.py", "Popen"),
        ("sandbox/backends/wasm/component.py", "Popen"),  # it is to outlive the process
        ("shim/attaching.py", "Popen"),  # without anyio; and it is to outlive the process
    }


def test_nothing_prints_to_stdout_but_the_command_line() -> None:
    """Stdout belongs to the protocol."""
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                to_stderr = any(keyword.arg == "file" for keyword in node.keywords)
                assert (
                    to_stderr or path.name == "build.py" or path.name == "commands.py" or path.parent.name == "cli"
                ), f"{path.name}:{node.lineno}"


def test_every_folder_of_the_user_has_the_same_name_on_windows() -> None:
    """There platformdirs puts our folder into one of the author, which has the same name, unless told not to."""
    calls = [
        (f"{path.name}:{node.lineno}", {keyword.arg for keyword in node.keywords})
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Call) and re.search(r"\buser_\w+_(?:dir|path)$", ast.unparse(node.func))
    ]
    assert calls, "control"
    assert [place for place, keywords in calls if "appauthor" not in keywords] == []


def test_every_module_says_what_it_owns_is_checked_and_has_at_most_400_lines() -> None:
    """What is longer owns more than one thing; these two are left."""
    left = {"upstreams/connection.py", "sandbox/guest/supervisor.py"}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        assert not text.strip() or ast.get_docstring(tree(path)), f"{path} has no docstring"
        assert "mypy: ignore-errors" not in text, path
        assert len(text.splitlines()) <= 400 or path.relative_to(PACKAGE).as_posix() in left, path


def test_no_process_of_a_test_run_compiles_what_another_has_compiled() -> None:
    """With this variable, which images of containers set, each worker spends 9 s of CPU on compiling all tests."""
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ
    assert not sys.dont_write_bytecode
