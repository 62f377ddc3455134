"""The commands `doctor` and `setup`, which say and fetch what this machine lacks for sandboxes and search."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread

from codemode_server.cli.stop import running_lines
from codemode_server.cli.terminal import announce, is_confirmed, load_with_warnings, show
from codemode_server.config.settings import Settings
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.executions import IsolationLevel
from codemode_server.features import provided
from codemode_server.records.executions import has_database
from codemode_server.sandbox.registry import (
    BACKENDS,
    Check,
    SandboxSettings,
    candidates,
    demand,
    install_packages,
    installed_packages,
    package_checks,
    proposed_extra,
)
from codemode_server.search.vector_ranker import SearchDiagnosis, diagnose
from codemode_server.startup.stores import database_place
from codemode_server.storage.database import Database
from codemode_server.support.extras import install, install_command
from codemode_server.support.text import escaped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-boot", dest="boot", action="store_false", help="try no microVM; go by the last time")


def run(parsed: argparse.Namespace) -> int:
    loaded = load_with_warnings(parsed)
    report = anyio.run(_examine, loaded.settings, parsed.boot)
    show(loaded.redactor.text("\n".join([report.text, "", *running_lines(loaded.place)])))
    return 0 if report.is_met else 1


@dataclass(frozen=True, slots=True)
class Report:
    checks: tuple[Check, ...]
    destination: str
    is_met: bool
    """True if this machine meets the settings, as far as it was checked."""
    packages: tuple[Check, ...] = ()

    @property
    def text(self) -> str:
        every = (*self.checks, *self.packages)
        width = max(len(check.name) for check in every)
        lines = [f"{check.name:<{width}}  {check.state:<7}  {check.message}" for check in every]
        lines += ["", f"programs will run in: {self.destination}"]
        if remedies := [f"  {check.name}: {check.remedy}" for check in every if check.remedy]:
            order = ", in this order" if len(remedies) > 1 else ""
            lines += ["", f"to fix{order}:", *remedies]
        return "\n".join(map(escaped, lines))


async def _examine(configured: Settings, boot: bool) -> Report:
    """Check everything; with `boot`, boot a microVM unless a check has failed. Downloads and changes nothing."""
    report = await examine_sandbox(configured.sandbox, boot=boot)
    others = await anyio.to_thread.run_sync(check_parts, configured)
    is_met = report.is_met and not any(it.is_obstacle for it in others)
    return replace(report, checks=(*report.checks, *others), is_met=is_met)


def check_parts(configured: Settings) -> list[Check]:
    """A check of the database, of search, and of each feature that may lack something. Blocks."""
    return [_database(configured), _search(diagnose(configured.search)), *(it(configured) for it in provided("check"))]


async def examine_sandbox(settings: SandboxSettings, *, boot: bool) -> Report:
    checks: list[Check] = []
    destination, obstacles, is_met, in_wasm = "", list[str](), False, False
    for spec in BACKENDS:
        diagnosis = await spec.diagnose(settings, boot=boot, announce=announce)
        if spec not in candidates(settings):
            checks += (replace(check, remedy="") for check in diagnosis.checks)
            continue
        checks += diagnosis.checks
        if diagnosis.place and not destination:
            destination = ", ".join([diagnosis.place, *obstacles])
            is_met = diagnosis.is_ready or not demand(settings)
            in_wasm = spec.isolation is IsolationLevel.WASM
        obstacles.append(f"since no {spec.sandbox} can be had: {diagnosis.obstacle}")
    if not destination:
        why = f"`{demand(settings)}` can't be met" if demand(settings) else "no sandbox can be had"
        destination = f"nothing, since {why} as things are"
    installed = await anyio.to_thread.run_sync(installed_packages, settings)
    packages = package_checks(settings, installed, in_wasm=in_wasm)
    return Report((*checks,), destination, is_met and not any(it.is_obstacle for it in packages), (*packages,))


def _database(configured: Settings) -> Check:
    try:
        if not has_database(configured):
            return Check("database", "ok", "SQLite, made by the first program")
        with closing(Database(database_place(configured))) as database:
            return Check("database", "ok", database.description())
    except JournalUnavailable as error:
        return Check("database", "failed", str(error))


def _search(found: SearchDiagnosis) -> Check:
    if not found.problem:
        return Check("search", "ok", found.text)
    why = f"{found.level}, by {found.description}; no better, since {found.problem}"
    return Check("search", "ok" if found.is_met else "missing", why, found.remedy)


def add_arguments_setup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--archive", type=Path, metavar="TAR", help="take the image from this file (docker save), without a network"
    )


def run_setup(parsed: argparse.Namespace) -> int:
    sandbox = load_with_warnings(parsed).settings.sandbox
    if (extra := proposed_extra(sandbox)) and sys.stdin.isatty():
        question = f"This machine can run microVMs, the strongest sandbox, with the extra `{extra}` (117 MB)."
        if is_confirmed(f"{question}\n  {install_command(extra)}\nInstall it now? [y/N] ") and install(extra):
            os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - the rest of `setup`, with what is installed now
    steps = anyio.run(_prepare, sandbox, parsed.archive)
    for step in steps:
        show(escaped(step.line))
    return 1 if any(step.is_obstacle for step in steps) else 0


async def _prepare(settings: SandboxSettings, archive: Path | None) -> list[Check]:
    steps = [await spec.prepare(settings, archive, announce) for spec in BACKENDS]
    packages = package_checks(settings, await install_packages(settings, announce))
    return [*(step for step in steps if step is not None), *packages]
