"""What development, CI and a release are made of is pinned with hashes, in agreement with pyproject.toml.

Nothing is installed or asked for here: `make setup` and .ci/run install from the same files.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

from scripts.lock_file import Pin, normalised, read_lock, runtime_names
from scripts.sbom import bill

ROOT = Path(__file__).parent.parent
REQUIREMENTS = ROOT / "requirements"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = sorted(REQUIREMENTS.glob("*.txt"))
NPM_LOCKS = sorted((REQUIREMENTS / "npm").glob("*/package-lock.json"))
SYSTEMS = [
    {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": system,
        "platform_machine": machine,
    }
    for python in ("3.11", "3.12", "3.13", "3.14")
    for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
]


def asked_for(name: str) -> list[str]:
    """What the sources of a lock ask for."""
    groups = PROJECT["dependency-groups"]
    if name == "dev":
        return [*PROJECT["project"]["dependencies"], *groups["dev"], *PROJECT["build-system"]["requires"]]
    if name == "tools":
        return list(groups["tools"])
    lines = (REQUIREMENTS / f"{name}.in").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def disagreements(requirements: list[str], pins: list[Pin], system: dict[str, str]) -> list[str]:
    installed = {pin.name: pin.version for pin in pins if not pin.marker or Marker(pin.marker).evaluate(dict(system))}
    wrong = []
    for requirement in map(Requirement, requirements):
        if requirement.marker and not requirement.marker.evaluate(dict(system)):
            continue
        version = installed.get(normalised(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement} is locked at {version}; make lock")
    return wrong


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: "-".join(list(system.values())[i] for i in (0, 2, 3)))
def test_the_lock_has_what_its_sources_ask_for(lock: Path, system: dict[str, str]) -> None:
    assert disagreements(asked_for(lock.stem), read_lock(lock), system) == []


def test_a_requirement_that_the_lock_does_not_meet_is_found() -> None:
    """The control: it fails for a version that is not allowed, and for a package that is not there."""
    pins = [Pin("anyio", "4.16.0", None, (), ())]
    assert disagreements(["anyio>=4.9,<5"], pins, SYSTEMS[0]) == []
    assert disagreements(["anyio>=5"], pins, SYSTEMS[0]) != []
    assert disagreements(["httpx"], pins, SYSTEMS[0]) != []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_each_locked_package_has_the_hashes_of_its_files(lock: Path) -> None:
    pins = read_lock(lock)
    assert pins
    assert [pin.name for pin in pins if not pin.hashes] == []


@pytest.mark.parametrize("lock", NPM_LOCKS, ids=lambda lock: lock.parent.name)
def test_each_npm_package_has_its_digest_and_the_version_that_is_asked_for(lock: Path) -> None:
    """A bundled package is part of the archive of another one, whose digest covers it."""
    packages = json.loads(lock.read_text())["packages"]
    manifest = json.loads(lock.with_name("package.json").read_text())
    for kind in ("dependencies", "optionalDependencies"):
        assert packages[""].get(kind, {}) == manifest.get(kind, {})
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


def test_setup_installs_nothing_that_has_no_hash() -> None:
    lines = (ROOT / "scripts" / "setup.sh").read_text().splitlines()
    installs = [line.split("pip install", 1)[1] for line in lines if "pip install" in line]
    assert [" --require-hashes " in line or " --no-deps --no-build-isolation " in line for line in installs] == [
        True,
        True,
    ]


def test_what_runs_in_and_around_the_sandbox_is_pinned_for_users_too() -> None:
    """docs/advisories.md speaks of these versions."""
    pinned = {
        requirement.name: str(requirement.specifier)
        for requirement in map(Requirement, [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]])
        if str(requirement.specifier).startswith("==")
    }
    assert pinned.keys() == {"wasmtime", "microsandbox", "componentize-py"}
    page = (ROOT / "docs" / "advisories.md").read_text()
    for name, version in pinned.items():
        assert f"{name} {version.removeprefix('==')}" in page


class TestTheBillOfMaterials:
    def test_it_names_each_package_of_the_lock_once(self) -> None:
        pins = read_lock(REQUIREMENTS / "dev.txt")
        packages = [part["purl"] for part in bill()["components"] if part["name"] in {pin.name for pin in pins}]
        assert packages == [f"pkg:pypi/{pin.name}@{pin.version}" for pin in pins]

    def test_what_users_install_is_required_and_the_tools_of_development_are_not(self) -> None:
        scope = {part["name"]: part["scope"] for part in bill()["components"]}
        runtime = runtime_names(read_lock(REQUIREMENTS / "dev.txt"))
        assert {name for name, found in scope.items() if found == "required"} == {
            *runtime,
            "guest.wasm",
            "static_table.bin",
        }
        assert {"mcp", "wasmtime", "pydantic-core"} <= runtime
        assert (scope["pytest"], scope["hatchling"]) == ("excluded", "excluded")

    def test_it_names_what_is_no_package_with_its_digest(self) -> None:
        parts = {part["name"]: part for part in bill()["components"]}
        assert [inside["name"] for inside in parts["guest.wasm"]["components"]] == [
            "cpython",
            "componentize-py",
            "tzdata",
        ]
        for name in ("guest.wasm", "static_table.bin", "docker.io/library/python:3.14-slim"):
            assert re.fullmatch("[0-9a-f]{64}", parts[name]["hashes"][0]["content"])

    def test_every_reference_in_it_leads_somewhere(self) -> None:
        document = bill()
        known = {part["bom-ref"] for part in document["components"]} | {"codemode-server"}
        assert {entry["ref"] for entry in document["dependencies"]} <= known
        assert {ref for entry in document["dependencies"] for ref in entry["dependsOn"]} <= known
