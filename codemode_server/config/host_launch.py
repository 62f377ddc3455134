"""Determines the command by which hosts are to start this product, and the configuration that they must name."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from codemode_server.config import places
from codemode_server.config.own_entries import ProductCommand
from codemode_server.extras import Installer, installer

_COMMAND = "codemode-server"
_XDG = "XDG_CONFIG_HOME"


def launch(config: Path | None, environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> ProductCommand:
    """The command that runs now, as absolute paths, and `CODEMODE_CONFIG` unless the user's own file is used.

    Not `--config`: some hosts have an option of that name and take ours for theirs.
    """
    environ = os.environ if environ is None else environ
    command, *args = command_words(sys.argv[0], Path(sys.executable), sys.prefix)
    named = config_to_name(config, environ, Path.cwd() if cwd is None else cwd)
    return ProductCommand(command, tuple(args), {places.VARIABLE: str(named)} if named else {})


def command_words(started_as: str, python: Path, prefix: str) -> list[str]:
    """The command of a product that was started as `started_as`, by an interpreter in the environment `prefix`."""
    match installer(prefix):
        case Installer.UVX:
            return [shutil.which("uvx") or "uvx", _COMMAND]  # the environment itself may be deleted with uv's cache
        case Installer.PIPX_RUN:
            return [shutil.which("pipx") or "pipx", "run", _COMMAND]
    suffix = ".exe" if python.suffix.casefold() == ".exe" else ""
    # Not resolved: the link in a folder of commands stays when the environment behind it is upgraded.
    asked = Path(os.path.abspath(started_as))  # noqa: PTH100 - `resolve` would follow the link
    for script in (asked, python.with_name(_COMMAND + suffix)):
        if script.stem.casefold() == _COMMAND and script.is_file():
            return [str(script)]
    if found := shutil.which(_COMMAND):
        return [str(Path(found).absolute())]
    return [str(python), "-m", "codemode_server"]


def config_to_name(config: Path | None, environ: Mapping[str, str], cwd: Path) -> Path | None:
    """The file that the entry has to name; none for the user's own, which is found anyway."""
    user = places.user_file()
    asked = places.asked_for(config, environ, cwd)
    if asked is not None:
        places.check_asked_for(asked, config, environ)
        return asked.path if asked.path != user or environ.get(_XDG) else None
    if user.is_file():
        return user if environ.get(_XDG) else None  # some hosts pass on few variables, and not this one
    here = places.in_folder(cwd)
    return here.path if here is not None else None
