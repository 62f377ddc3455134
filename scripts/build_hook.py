"""Builds the sandbox's component, and puts it into the wheel compressed: 9 MB in place of 36, also once installed.
Hatchling runs it, also for an editable install, which uses the component as it is.

The environment has only what `[build-system] requires` names, so the builder is loaded by its path.
"""

from __future__ import annotations

import importlib.util
import lzma
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SandboxBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Makes `guest.wasm` if there is none of these sources."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Run before the wheel is put together."""
        if self.target_name != "wheel":
            return
        builder = _builder(Path(self.root))
        if not builder.is_current():
            self.app.display_info("building the sandbox's component (about 20 s)")
            builder.build_component()
        if version == "editable":
            return
        self.app.display_info("compressing the sandbox's component (about 20 s)")
        packed = Path(self.directory) / builder.PACKED.name
        packed.parent.mkdir(parents=True, exist_ok=True)
        packed.write_bytes(lzma.compress(builder.COMPONENT.read_bytes(), preset=9))
        build_data["force_include"][str(packed)] = str(builder.PACKED.relative_to(self.root))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Run after the wheel is put together."""
        for packed in build_data["force_include"]:
            Path(packed).unlink(missing_ok=True)


def _builder(root: Path) -> ModuleType:
    path = root / "codemode_server" / "sandbox" / "backends" / "wasm" / "build.py"
    spec = importlib.util.spec_from_file_location("codemode_sandbox_build", path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{path} is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
