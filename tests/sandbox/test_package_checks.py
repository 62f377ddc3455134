"""`setup`, `doctor`, `status` and the pages show the same lines about `sandbox.packages`: what is installed, and what
is missing with what to do. The commands are child processes; the index is the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from codemode_server.sandbox.registry import SandboxSettings, installed_packages, package_checks
from tests.cli.test_commands import Run, command
from tests.sandbox.package_folder import NATIVE, make_packages
from tests.sandbox.package_index import Index
from tests.web.pages import pages

LISTED = ["Greeting>=1", "needy"]
GREETING = "package: greeting 1.0, 0.0 MB"
NEEDY = "package: needy 1.0, 0.0 MB; not in WASM: ImportError: no such device"
REMEDY = "needy may work in a microVM; without one, remove it from sandbox.packages"
MISSING = "packages: Greeting>=1, needy: not installed yet; run: codemode-server setup"


@pytest.fixture
def index(index: Index) -> Index:
    index.add("greeting", {"greeting.py": "hello = 'hello'\n" * 10})
    index.add("needy", {"needy.py": "raise ImportError('no such device')"})
    return index


@pytest.fixture
def run(index: Index, package_cache: Path, tmp_path: Path) -> Callable[..., Run]:
    cache, served = package_cache.parent.parent, f"{index.address}/simple"
    environment = {"XDG_CACHE_HOME": str(cache), "UV_DEFAULT_INDEX": served, "UV_NO_CACHE": "1"}

    def run(line: str, packages: list[str], backend: str = "wasm") -> Run:
        sandbox = {"backend": backend, "packages": packages, "nodes": ["127.0.0.1:1"], "node_token": "0123456789abcdef"}
        settings = {"sandbox": sandbox, "search": {"ranker": "lexical"}}
        (tmp_path / "upstream.yaml").write_text(json.dumps(settings))
        return command(tmp_path, f"--config upstream.yaml {line}", environment=environment)

    return run


def lines_of(done: Run) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith("package")]


def rows(done: Run) -> list[list[str]]:
    return [line.split(maxsplit=2) for line in lines_of(done)]


def test_the_commands_show_what_is_installed_and_what_is_missing(run: Callable[..., Run]) -> None:
    before = run("doctor --no-boot", LISTED)
    what, _, remedy = MISSING.partition("; ")
    assert rows(before) == [["packages", "missing", what.removeprefix("packages: ")]]
    assert f"to fix:\n  packages: {remedy}\n" in before.stdout
    assert (before.code, lines_of(run("status", LISTED))) == (1, [MISSING])
    done = run("setup", LISTED)
    assert (done.code, lines_of(done)) == (0, [GREETING, NEEDY]), done
    after = run("doctor --no-boot", LISTED)
    shown = [["package", "ok", GREETING], ["package", "missing", NEEDY]]
    assert rows(after) == [[name, state, line.removeprefix("package: ")] for name, state, line in shown]
    assert f"to fix:\n  package: {REMEDY}\n" in after.stdout
    assert (after.code, lines_of(run("status", LISTED))) == (1, [GREETING, f"{NEEDY}; {REMEDY}"])


def test_with_packages_that_run_here_all_is_well_and_without_any_nothing_is_shown(run: Callable[..., Run]) -> None:
    assert run("setup", LISTED[:1]).code == 0
    for line in ("doctor --no-boot", "status"):
        done = run(line, LISTED[:1])
        assert (done.code, len(lines_of(done))) == (0, 1), done
        without = run(line, [])
        assert (without.code, lines_of(without)) == (0, [])


def test_sandbox_nodes_have_none_and_nothing_is_installed_for_them(
    run: Callable[..., Run], index: Index, package_cache: Path
) -> None:
    told = ["packages: sandbox nodes have no packages; remove sandbox.packages"]
    assert (lines_of(run("setup", LISTED, "remote")), lines_of(run("status", LISTED, "remote"))) == (told, told)
    assert index.requests == []
    assert not package_cache.exists()


async def test_the_page_of_servers_shows_the_same_lines(tmp_path: Path, package_cache: Path) -> None:
    async with pages(tmp_path, sandbox={"packages": LISTED}) as (site, _):
        shown = await site.text("servers")
    assert "Packages that programs can import" in shown
    assert f'<li class="failed">{MISSING.replace(">", "&gt;")}</li>' in shown
    async with pages(tmp_path) as (site, _):
        assert "Packages" not in await site.text("servers")


def test_a_package_that_only_others_need_is_not_missing_in_wasm(tmp_path: Path) -> None:
    """Its obstacle is shown; whether those that need it can do without is known of them."""
    packages = make_packages(tmp_path)
    line = f"Quick 3, 0.0 MB; not in WASM: {NATIVE}"
    settings = SandboxSettings(packages=("parcel",))
    found = package_checks(settings, packages, in_wasm=True)
    assert [(it.state, it.message) for it in found] == [("ok", "parcel 1.2, 0.0 MB"), ("ok", line)]
    assert installed_packages(SandboxSettings()).installed == ()
