"""Says why a child process can't be started, and which variables of our environment it may lack."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

_WHERE_TO_GET = {
    "uvx": "; it comes with uv, see https://docs.astral.sh/uv/",
    "npx": "; it comes with Node, see https://nodejs.org/",
}
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
_OF_NETWORK = (
    *(spelling for name in _PROXIES for spelling in (name, name.lower())),
    *_CERTIFICATES,
    *("UV_SYSTEM_CERTS", "UV_NATIVE_TLS"),
)
_ABOUT_NETWORK = re.compile(
    "certificate|issuer|ssl|tls|proxy|connect|resol|network|time(d )?.?out|fetch|download|dns|ENOTFOUND", re.IGNORECASE
)


def why_not_started(cause: BaseException, command: str, cwd: str | None, env: Mapping[str, str]) -> str | None:
    """Explains an error of the start; None if it is not of the system."""
    if not isinstance(cause, OSError):
        return None
    if isinstance(cause, FileNotFoundError | NotADirectoryError) and cwd and cause.filename == cwd:
        return f"can't be started: there is no folder {cwd!r}"
    if _is_missing(cause, command, env):
        return f"can't be started: there is no program {command!r}{_remedy(command)}"
    if isinstance(cause, PermissionError):
        if Path(command).is_dir():
            return f"can't be started: {command!r} is a folder"
        remedy = "" if os.name == "nt" else "; `chmod +x` allows it"
        return f"can't be started: {command!r} may not be run ({cause.strerror}){remedy}"
    return f"can't be started: {cause.strerror or cause}"


def missing_variables(environ: Mapping[str, str], given: Mapping[str, str], output: str | None) -> str:
    """A clause on the variables for proxies and certificates that we have and the process has not; empty if there are
    none, or if `output`, what the process wrote, is not about the network. None: it has not said why it waits."""
    lacking = [name for name in _OF_NETWORK if environ.get(name) and name not in given]
    if not lacking or (output is not None and not _ABOUT_NETWORK.search(output)):
        return ""
    names = ", ".join(lacking)
    return f" ({names}: set here, but not for this server; name it in its `env`, as `{lacking[0]}: ${{{lacking[0]}}}`)"


def _remedy(command: str) -> str:
    if _is_path(command):
        return "; correct the path, or install it"
    if len(words := command.split()) > 1:
        return f"; if {words[0]!r} is the program, put the rest in `args`"
    return _WHERE_TO_GET.get(command, " on the PATH; install it or give its full path")


def _is_path(command: str) -> bool:
    return "/" in command or os.sep in command


def _is_missing(cause: OSError, command: str, env: Mapping[str, str]) -> bool:
    """True if the program does not exist. With an unreadable folder on PATH the system reports "permission denied"."""
    if isinstance(cause, PermissionError) and not _is_path(command):
        return shutil.which(command, mode=os.F_OK, path=env.get("PATH")) is None
    return isinstance(cause, FileNotFoundError)
