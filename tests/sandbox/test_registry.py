"""Which sandbox backends the settings allow, the best first."""

from __future__ import annotations

from typing import Any

from codemode_server.sandbox.registry import SandboxSettings, candidates


def test_the_best_backend_that_the_settings_allow_comes_first() -> None:
    def names(**settings: Any) -> list[str]:
        return [spec.name for spec in candidates(SandboxSettings(**settings))]

    assert names() == ["microsandbox", "wasm"]
    assert names(require="microvm") == ["microsandbox"]
    assert names(backend="wasm") == ["wasm"]
