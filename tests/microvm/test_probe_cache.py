"""What a boot has shown holds for the same machine, kernel, image and microsandbox: a success for good, a failure for a
day, a matter of the moment not at all."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from codemode_server.config.settings import LimitSettings
from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox.backends.microvm import backend, probe_cache, runtime
from codemode_server.sandbox.backends.microvm.probe_cache import recall, remember
from codemode_server.sandbox.packages.installed import NO_PACKAGES
from codemode_server.sandbox.registry import SandboxSettings

WORKS = 0.25
FAILS = SandboxUnavailable("the kernel did not start", "run: codemode-server doctor")
DAY = 24 * 3600.0


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache" / "microvm"
    monkeypatch.setattr(probe_cache, "folder", lambda: folder)
    return folder


def test_what_is_remembered_is_recalled_under_its_key_alone(cache: Path) -> None:
    assert recall("a") is None
    remember("a", WORKS)
    remember("b", FAILS)
    assert (recall("a"), str(recall("b")), recall("c")) == (WORKS, str(FAILS), None)
    assert {(path.name, path.stat().st_mode & 0o777) for path in cache.iterdir()} == {
        ("a.json", 0o600),
        ("b.json", 0o600),
    }
    assert cache.stat().st_mode & 0o777 == 0o700


def test_a_success_holds_for_good_and_a_failure_for_a_day() -> None:
    remember("works", WORKS, now=lambda: 1_000.0)
    remember("fails", FAILS, now=lambda: 1_000.0)
    assert recall("works", now=lambda: 1_000.0 + 365 * DAY) == WORKS
    assert str(recall("fails", now=lambda: 999.0 + DAY)) == str(FAILS)
    assert recall("fails", now=lambda: 1_001.0 + DAY) is None
    assert recall("fails", now=lambda: 900.0) is None, "from the future, so the clock was wrong"


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are of POSIX")
def test_a_file_that_others_may_have_written_is_no_verdict(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember("a", WORKS)
    (cache / "a.json").chmod(0o620)
    assert recall("a") is None
    (cache / "a.json").chmod(0o600)
    assert recall("a") == WORKS
    (cache / "b.json").symlink_to(cache / "a.json")
    assert recall("b") is None
    monkeypatch.setattr(os, "geteuid", lambda: 4_242)
    assert recall("a") is None


def test_the_key_is_of_the_machine_and_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    first = probe_cache.key(SandboxSettings())
    assert probe_cache.key(SandboxSettings(warm=3)) == first
    assert probe_cache.key(SandboxSettings(image="other")) != first
    monkeypatch.setattr(platform, "release", lambda: "7.0")
    assert probe_cache.key(SandboxSettings()) != first


async def test_a_boot_that_fails_is_remembered_unless_it_is_a_matter_of_the_moment() -> None:
    async def fail() -> float:
        raise FAILS

    async def fail_for_now() -> float:
        raise SandboxUnavailable("no network", is_temporary=True)

    settings, other = SandboxSettings(), SandboxSettings(image="other")
    assert await probe_cache.try_boot(settings, fail) == FAILS
    assert str(recall(probe_cache.key(settings))) == str(FAILS)
    assert str(await probe_cache.try_boot(other, fail_for_now)) == "no network"
    assert recall(probe_cache.key(other)) is None


@pytest.mark.parametrize("before", [None, WORKS])
async def test_a_start_whose_microvm_does_not_boot_is_remembered_also_after_a_success(
    monkeypatch: pytest.MonkeyPatch, before: float | None
) -> None:
    async def has_no_problem() -> None:
        pass

    async def fail(_: object) -> float:
        raise FAILS

    monkeypatch.setattr(runtime, "doctor", has_no_problem)
    monkeypatch.setattr(backend, "started", fail)
    settings, announced = SandboxSettings(), list[str]()
    if before is not None:
        remember(probe_cache.key(settings), before)
    with pytest.raises(SandboxUnavailable, match="the kernel did not start"):
        await backend.create(settings, LimitSettings(), None, NO_PACKAGES, announced.append)
    assert str(recall(probe_cache.key(settings))) == str(FAILS)
    assert announced == ([] if before else ["trying a microVM on this machine, once"])
