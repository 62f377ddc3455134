"""Development and CI install from locks with hashes that agree with pyproject.toml. Nothing is installed here."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
REQUIREMENTS = ROOT / "requirements"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = sorted(REQUIREMENTS.glob("*.txt"))
NPM_LOCKS = sorted((REQUIREMENTS / "npm").glob("*/package-lock.json"))
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^ ;\\]+)([^\n]*(?:\n +[^\n]+)*)", re.MULTILINE)


def pins(lock: Path) -> list[tuple[str, str, str]]:
    """Name, version, and the rest of the entry (marker, hashes) of each package."""
    return [(canonicalize_name(name), version, rest) for name, version, rest in PIN.findall(lock.read_text())]


def disagreements(requirements: list[str], packages: list[tuple[str, str, str]]) -> list[str]:
    """The requirements that no package of a lock meets."""
    return [
        text
        for text in requirements
        if (requirement := Requirement(text))
        and not any(
            name == canonicalize_name(requirement.name) and requirement.specifier.contains(version, prereleases=True)
            for name, version, _ in packages
        )
    ]


def asked_for(name: str) -> list[str]:
    groups = PROJECT["dependency-groups"]
    if name == "dev":
        return [*PROJECT["project"]["dependencies"], *groups["dev"], *PROJECT["build-system"]["requires"]]
    if name == "product":
        return list(PROJECT["project"]["dependencies"])
    if name in groups:
        return list(groups[name])
    lines = (REQUIREMENTS / f"{name}.in").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_the_lock_has_what_its_sources_ask_for(lock: Path) -> None:
    assert disagreements(asked_for(lock.stem), pins(lock)) == []
    assert disagreements(["pip<0.1", "no-such-package"], pins(lock)) == ["pip<0.1", "no-such-package"]  # the control


@pytest.mark.parametrize("lock", NPM_LOCKS, ids=lambda lock: lock.parent.name)
def test_each_npm_package_has_its_digest_and_the_version_that_is_asked_for(lock: Path) -> None:
    """A bundled package is part of the archive of another one, whose digest covers it."""
    packages = json.loads(lock.read_text())["packages"]
    manifest = json.loads(lock.with_name("package.json").read_text())
    for kind in ("dependencies", "optionalDependencies"):
        for name, version in manifest.get(kind, {}).items():
            assert packages[f"node_modules/{name}"]["version"] == version
    own = {name: package for name, package in packages.items() if name and not package.get("inBundle")}
    assert [name for name, package in own.items() if not package.get("integrity", "").startswith("sha512-")] == []


@pytest.mark.parametrize("lock", [*LOCKS, *NPM_LOCKS], ids=lambda lock: str(lock.relative_to(REQUIREMENTS)))
def test_no_lock_names_the_address_of_an_index(lock: Path) -> None:
    text = lock.read_text()
    assert not re.search(r"^\s*(-i|-f|--index-url|--extra-index-url|--find-links)\b", text, re.MULTILINE)
    assert '"resolved"' not in text
    assert " @ " not in text


def test_what_runs_in_and_around_the_sandbox_is_pinned_for_users_too() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    pinned = {
        requirement.name
        for requirement in map(
            Requirement, [*PROJECT["project"]["dependencies"], *extras["microvm"], *PROJECT["build-system"]["requires"]]
        )
        if str(requirement.specifier).startswith("==")
    }
    assert pinned == {"wasmtime", "microsandbox", "componentize-py"}
