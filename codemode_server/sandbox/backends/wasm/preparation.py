"""Checks the wasm component for `doctor`, and compiles it in advance for `setup`."""

from __future__ import annotations

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox.backends.wasm import component
from codemode_server.sandbox.registry import Announce, Check, Diagnosis, Step


def diagnose() -> Diagnosis:
    """Whether the component is built and compiled for this machine. Blocks."""
    try:
        component.wasmtime_folder()
        guest = component.checked_component()
    except SandboxUnavailable as error:
        return Diagnosis((Check("wasm", "missing", error.reason, error.remedy),))
    compiled = "compiled for this machine"
    if not component.is_compiled(guest, component.cache_folder()):
        compiled += " at its first use, or by codemode-server setup"
    return Diagnosis((Check("wasm", "ok", compiled),), "wasm")


def prepare(announce: Announce) -> Step:
    """Compile the component unless it is compiled already. Blocks."""
    try:
        guest, folder = component.checked_component(), component.cache_folder()
        if component.is_compiled(guest, folder):
            return Step("wasm", "was compiled already")
        component.native_code(guest, folder, announce)
    except SandboxUnavailable as error:
        return Step("wasm", str(error), is_successful=False)
    return Step("wasm", "compiled for this machine")
