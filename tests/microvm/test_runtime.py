"""What this machine lacks for microVMs is told with what mends it, and which backend the settings allow.

The reports are what `msb doctor` 0.7.11 printed on machines of each kind; the folder and the command are real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox import registry
from codemode_server.sandbox.backends.microvm import runtime
from codemode_server.sandbox.backends.microvm.runtime import read_doctor
from codemode_server.sandbox.registry import SandboxSettings, candidates, proposed_extra
from codemode_server.support.extras import install_command

REFLINK = """\
warn: MSB_HOME does not support reflink clones
  → clone=auto will use independent sparse copies for flat sandbox roots
  → use a reflink-capable filesystem for MSB_HOME to enable copy-on-write clones
"""
NO_DEVICE = f"""\
warn: Root clone: copy fallback — reflink unavailable
  ✓ CPU virt            svm
  ✗ KVM device          missing
{REFLINK}\
error: /dev/kvm is not present
  → the KVM kernel module is not loaded
  → in containers or CI, the host must expose /dev/kvm to this environment
  → fix: load the kvm_amd kernel module
  →   sudo modprobe kvm_amd
  → apply automatically: msb doctor --fix
"""
NO_ACCESS = """\
  ✓ CPU virt            svm
  ✓ KVM device          /dev/kvm
  ✗ KVM access          permission denied
error: /dev/kvm is not accessible by your user
  → /dev/kvm is owned by group 'kvm', which your user is not in
  → fix: add me to the 'kvm' group and grant access now
  →   sudo usermod -aG kvm me
  →   sudo setfacl -m u:me:rw /dev/kvm
  → apply automatically: msb doctor --fix
"""


@pytest.mark.parametrize(
    ("report", "reason", "remedy"),
    [
        (NO_DEVICE, "/dev/kvm is not present", "sudo modprobe kvm_amd"),
        (NO_ACCESS, "/dev/kvm is not accessible by your user", "sudo usermod -aG kvm me; sudo setfacl"),
    ],
)
def test_a_lack_is_told_with_the_command_that_mends_it(report: str, reason: str, remedy: str) -> None:
    problem = read_doctor(report)
    assert problem.reason == reason
    assert problem.remedy.startswith(remedy)
    assert not problem.is_temporary


async def test_the_answer_is_that_of_the_real_command(msb_home: Path) -> None:
    done = await runtime.msb("doctor", seconds=60)
    assert "MSB_HOME" in done.stderr + done.stdout
    problem = await runtime.virtualization()
    assert (problem is None) == (done.returncode == 0)
    if problem is not None:
        assert problem.reason
        assert problem.remedy
        assert str(await runtime.doctor()) == str(problem)
    assert not msb_home.exists(), "nothing is made by looking"  # noqa: ASYNC240


def test_a_machine_is_examined_without_loading_the_sdk() -> None:
    """It would stay in the memory of every product, also where no microVM boots."""
    code = (
        "import asyncio, sys; from codemode_server.sandbox.backends.microvm import runtime;"
        "asyncio.run(runtime.doctor()); raise SystemExit('microsandbox' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_a_command_that_takes_too_long_is_given_up_for_now(msb_home: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never")
    with pytest.raises(SandboxUnavailable, match="`msb load` has not ended within 0") as caught:
        await runtime.msb("load", "--input", str(tmp_path / "never"), seconds=0.5)
    assert caught.value.is_temporary


def test_a_runtime_that_is_there_in_part_is_told(msb_home: Path) -> None:
    """The SDK takes what is in MSB_HOME before its own."""
    (msb_home / "bin").mkdir(parents=True)
    (msb_home / "bin" / "msb").write_bytes(b"")
    (msb_home / "bin" / "msb").chmod(0o755)
    with pytest.raises(SandboxUnavailable, match=r"the runtime of microsandbox is not complete: .*libkrunfw") as caught:
        runtime.find()
    assert f"{msb_home}/bin" in caught.value.remedy


async def test_a_package_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "microsandbox", None)
    assert runtime.version() is None
    problem = await runtime.doctor()
    assert problem is not None
    assert "microsandbox" in problem.reason or "microVMs" in problem.reason


@pytest.mark.parametrize(
    ("system", "machine", "reason"),
    [
        ("darwin", "x86_64", "there are no microVMs of microsandbox for macOS on x86_64"),
        ("win32", "AMD64", "there are no microVMs of microsandbox for Windows on AMD64"),
    ],
)
def test_a_platform_without_the_package_is_told_as_such(system: str, machine: str, reason: str) -> None:
    assert runtime.not_installed(system, machine).reason == reason


@pytest.mark.skipif(sys.platform != "linux", reason="the device of Linux")
@pytest.mark.parametrize(
    ("has_device", "flags", "is_proposed"), [(True, "fpu svm", True), (False, "fpu svm", False), (True, "fpu", False)]
)
def test_the_extra_is_proposed_where_the_machine_has_virtualization(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_device: bool, flags: str, is_proposed: bool
) -> None:
    device = tmp_path / "kvm"
    if has_device:
        device.touch()
    monkeypatch.setattr(runtime, "_KVM", device)
    monkeypatch.setattr(registry, "processor_features", lambda: flags)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setitem(sys.modules, "microsandbox", None)
    assert (proposed_extra(SandboxSettings()) == "microvm") == is_proposed
    assert proposed_extra(SandboxSettings(backend="wasm")) is None
    problem = runtime.not_installed("linux", "x86_64")
    assert problem.reason == (
        "this machine can run microVMs, and the extra `microvm` is not installed"
        if is_proposed
        else f"this machine can't run microVMs: it has no {device}, or its processor no virtualization"
    )
    assert problem.remedy.endswith(install_command("microvm"))


def test_a_home_that_can_not_be_written_is_told(msb_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    msb_home.write_text("a file")
    monkeypatch.setenv("MSB_HOME", str(msb_home / "below"))
    problem = runtime.home_problem()
    assert problem is not None
    assert problem.reason == f"the folder {msb_home}/below (MSB_HOME) can't be written: Not a directory"


def test_the_best_backend_that_the_settings_allow_comes_first() -> None:
    def names(**settings: Any) -> list[str]:
        return [spec.name for spec in candidates(SandboxSettings(**settings))]

    assert names() == ["microsandbox", "wasm"]
    assert names(require="microvm") == ["microsandbox"]
    assert names(backend="wasm") == ["wasm"]
