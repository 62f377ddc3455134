"""Knows how and from where this product was installed, and so the command that adds an optional part (an extra); and
which packages of the extras `privacy` and `privacy-names` are missing. Imports none of them."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from enum import StrEnum
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

_NAME = "codemode-server"


class Installer(StrEnum):
    """Tool that created the environment in which the product runs. The values are commands without the package."""

    UVX = "uvx"
    UV_TOOL = "uv tool install"
    PIPX_RUN = "pipx run"
    PIPX = "pipx install --force"
    PIP = "pip install"


def installer(prefix: str) -> Installer:
    """Detects the tool that created the environment in this folder."""
    parts = [part.casefold() for part in prefix.replace("\\", "/").split("/")]
    if "uv" in parts and any(part.startswith(("archive-v", "environments-v")) for part in parts):
        return Installer.UVX
    if "pipx" in parts and any(part in (".cache", "cache") for part in parts) and "venvs" not in parts:
        return Installer.PIPX_RUN
    if Path(prefix, "uv-receipt.toml").is_file():
        return Installer.UV_TOOL
    return Installer.PIPX if Path(prefix, "pipx_metadata.json").is_file() else Installer.PIP


def install_command(extra: str) -> str:
    """The command that adds an extra, or starts the product with it if each start makes an environment. It names the
    extras that are installed, which most installers would remove."""
    found = installer(sys.prefix)
    extras = {extra} if found is Installer.PIP else {extra, *_installed_extras()}
    return command_for(",".join(sorted(extras)), sys.prefix, _direct_url())


def install(extra: str) -> bool:
    """Runs the command that adds an extra; its output goes to the terminal. True if it is installed now."""
    command = shlex.split(install_command(extra))
    if command[0] == "pip":
        command = [sys.executable, "-P", "-m", *command]  # the current folder, perhaps a clone, is no place of modules
    if installer(sys.prefix) in (Installer.UVX, Installer.PIPX_RUN) or shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, check=False).returncode == 0  # noqa: S603 - our own command


def _installed_extras() -> set[str]:
    """The extras whose packages are all installed."""
    from packaging.requirements import Requirement  # takes 24 ms, which only a message needs

    try:
        metadata = distribution(_NAME).metadata
    except PackageNotFoundError:
        return set()
    needed = [Requirement(line) for line in metadata.get_all("Requires-Dist") or []]
    found = set()
    for extra in metadata.get_all("Provides-Extra") or []:
        own = [
            it.name
            for it in needed
            if it.marker and "extra ==" in str(it.marker) and it.marker.evaluate({"extra": extra})
        ]
        if own and all(map(_is_installed, own)):
            found.add(extra)
    return found


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def command_for(extra: str, prefix: str, direct_url: str | None) -> str:
    """The command for an environment and its `direct_url.json`, which installers write for what is not from an index:
    https://packaging.python.org/en/latest/specifications/direct-url/"""
    package, is_editable = _source(extra, direct_url)
    match found := installer(prefix):
        case Installer.UVX:
            return f"uvx --from {package} {_NAME}"
        case Installer.PIPX_RUN:
            return f"pipx run --spec {package} {_NAME}"
    return f"{found} {'--editable ' if is_editable else ''}{package}"


def _source(extra: str, direct_url: str | None) -> tuple[str, bool]:
    """The package to install, quoted for a shell, and True if its code is used in place. From where it was installed:
    its name alone may be somebody else's in an index."""
    found = json.loads(direct_url) if direct_url else {}
    address = urlsplit(found.get("url", ""))
    if not address.scheme:
        return f"'{_NAME}[{extra}]'", False
    if address.scheme == "file" and "vcs_info" not in found:
        path = url2pathname(address.path)
        return shlex.quote(f"{path}[{extra}]"), bool(found.get("dir_info", {}).get("editable"))
    user, _, host = address.netloc.rpartition("@")
    url = address._replace(netloc=f"git@{host}" if user == "git" else host).geturl()  # another user may be a secret
    if vcs := found.get("vcs_info"):
        revision = vcs.get("requested_revision")
        url = f"{vcs['vcs']}+{url}{f'@{revision}' if revision else ''}"
    if subdirectory := found.get("subdirectory"):
        url += f"#subdirectory={subdirectory}"
    return shlex.quote(f"{_NAME}[{extra}] @ {url}"), False


def _direct_url() -> str | None:
    try:
        return distribution(_NAME).read_text("direct_url.json")
    except PackageNotFoundError:  # run from a folder on PYTHONPATH
        return None


_LIBRARIES = ("phonenumbers", "stdnum")


class Missing(NamedTuple):
    reason: str
    command: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.command})"


@cache
def has_privacy() -> bool:
    """True if the libraries of the extra are installed; checked once."""
    return all(find_spec(name) is not None for name in _LIBRARIES)


@cache
def missing_privacy(models: tuple[str, ...] = ()) -> Missing | None:
    """Missing packages of the detection, with these models for names in free text if any; checked once."""
    if not has_privacy():
        return Missing("the detection of personal data is not installed", install_command("privacy"))
    if models and find_spec("spacy") is None:
        return Missing("spaCy, which privacy.name_models asks for, is not installed", install_command("privacy-names"))
    for model in models:
        if find_spec(model) is None:
            why = f"the model {model}, which privacy.name_models asks for, is not installed"
            return Missing(why, f"{sys.executable} -m spacy download {model}")
    return None
