"""Knows how this product was installed, and so the command that adds an optional part of it (an extra)."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path

_NAME = "codemode-server"


class Installer(StrEnum):
    """What made the environment that the product runs in. The values are commands without the package."""

    UVX = "uvx"
    UV_TOOL = "uv tool install"
    PIPX_RUN = "pipx run"
    PIPX = "pipx install --force"
    PIP = "pip install"


def installer(prefix: str) -> Installer:
    """What made the environment in this folder."""
    parts = [part.casefold() for part in prefix.replace("\\", "/").split("/")]
    if "uv" in parts and any(part.startswith(("archive-v", "environments-v")) for part in parts):
        return Installer.UVX
    if "pipx" in parts and any(part in (".cache", "cache") for part in parts) and "venvs" not in parts:
        return Installer.PIPX_RUN
    if Path(prefix, "uv-receipt.toml").is_file():
        return Installer.UV_TOOL
    return Installer.PIPX if Path(prefix, "pipx_metadata.json").is_file() else Installer.PIP


def install_command(extra: str, prefix: str = sys.prefix) -> str:
    """The command that adds an extra, or starts the product with it if each start makes an environment."""
    package = f"'{_NAME}[{extra}]'"
    match found := installer(prefix):
        case Installer.UVX:
            return f"uvx --from {package} {_NAME}"
        case Installer.PIPX_RUN:
            return f"pipx run --spec {package} {_NAME}"
    return f"{found} {package}"
