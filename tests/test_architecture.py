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
"""Every stage may read the configuration in force, and nothing else of `config`."""
FILES_OF_WORKFLOWS = ("codemode_server.config.document.", "codemode_server.config.problems.")
"""How YAML is read with its lines, which `workflows` shares with the configuration."""
REGISTRIES = (
    "codemode_server.sandbox.registry.",
    "codemode_server.upstreams.transports.registry.",
    "codemode_server.front.tools.registry.",
)
"""They describe implementations before anything of those is imported; the settings are made of what they list."""
KINDS_OF_DATA = ("codemode_server.privacy.findings.",)
"""What the settings of the detection are checked against."""
NAMES_IN_SETTINGS = ("codemode_server.catalog.naming.", "codemode_server.catalog.labels.")
"""By which settings can mean a server, so that the configuration can say which mean none."""
STAGES = (
    "front",
    "executions",
    "gateway",
    "guardrails",
    "privacy",
    "upstreams",
    "sandbox",
    "search",
    "workflows",
    "catalog",
    "telemetry",
)
"""In the order in which data flows down; an import points further down the list."""
NEUTRAL = {
    *("background_tasks", "change_signal", "conditions", "domain", "extras", "field_names", "file_stamps"),
    *("guardrail_settings", "http_connections", "http_settings", "json_values", "known_tokens", "known_values"),
    *("off_loop", "permission_settings", "privacy_settings", "private_cipher"),
    *("private_files", "processes", "redaction", "setting_types", "settings", "temporary", "text", "tokens"),
    "untrusted_files",
}
USE_SECRETS = {"config", "upstreams"}
"""The configuration refers to secrets, and connections store the tokens of a sign-in; nobody else reads one."""
WIRING = {
    *("__main__", "cli", "app", "first_listing", "serve", "logs", "upstream_catalog", "live_search", "stores"),
    *("records", "web", "approved_rules", "config_takeover", "product_telemetry"),
}


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


SHARED = {
    "workflows": FILES_OF_WORKFLOWS,
    "config": NAMES_IN_SETTINGS,
    "privacy_settings": KINDS_OF_DATA,
    "settings": REGISTRIES,
}
"""What some may import of stages that they must not know otherwise."""
STORED = {
    "file_stamps",
    "private_cipher",
    "private_files",
    "json_values",
    "off_loop",
    "catalog.observed",
    "gateway.audit",
    "search.usage_store",
    "upstreams.cache",
}
"""What `storage` may know beside what is beneath it: the values that it holds, and nothing else of the stages."""


def test_modules_import_nothing_of_the_stages_above_them() -> None:
    for path in FILES:
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if own in WIRING:
            continue
        names = [name for name in imports(path) if not f"{name}.".startswith((LIVE, *SHARED.get(own, ())))]
        if own == "storage":
            modules = {name.rsplit(".", 1)[0].removeprefix("codemode_server.") for name in names}
            beneath = ("domain", "processes", "storage", "codemode_server")
            assert {module for module in modules if not module.startswith(beneath)} <= STORED, path
            continue
        used = {*map(stage_of, names)} - {own, "", "__version__"} - NEUTRAL
        allowed = {"secrets"} if own in USE_SECRETS else {"guardrails"} if own == "testing" else set()
        if own in STAGES:
            allowed |= {*STAGES[STAGES.index(own) + 1 :], "storage"}  # they say which store they are given
        assert used <= allowed, f"{path} must not import {', '.join(sorted(used - allowed))}"


@pytest.mark.parametrize("name", ["sandbox.backends", "upstreams.transports", "front.tools"])
def test_only_the_registry_knows_the_implementations(name: str) -> None:
    """So adding one changes nothing else; the registry of sandboxes is beside its folder."""
    folder, registry = PACKAGE.joinpath(*name.split(".")), PACKAGE / "sandbox" / "registry.py"
    known = {
        dotted
        for path in FILES
        if not path.is_relative_to(folder) and path != registry
        for dotted in imports(path)
        if dotted.startswith(f"codemode_server.{name}.") and not f"{dotted}.".startswith(REGISTRIES)
    }
    assert not known


def test_the_guest_imports_nothing_of_the_host() -> None:
    for path in (PACKAGE / "sandbox" / "guest").rglob("*.py"):
        assert not list(imports(path)), path.name


def test_only_the_gateway_calls_an_upstream() -> None:
    """There is no other way to an upstream: nobody else so much as names the method."""
    callers = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in ("call_tool", "read_resource")
        if path.relative_to(PACKAGE).parts[0] not in ("upstreams", "front")
    }
    assert callers == {"gateway/targets.py"}


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
    }


def test_nothing_prints_to_stdout_but_the_command_line() -> None:
    """Stdout belongs to the protocol."""
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                to_stderr = any(keyword.arg == "file" for keyword in node.keywords)
                assert to_stderr or path.name == "build.py" or path.parent.name == "cli", f"{path.name}:{node.lineno}"


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
