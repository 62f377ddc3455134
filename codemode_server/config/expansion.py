"""Expands `${VAR}`, `${VAR:-default}`, `${keyring:NAME}` and `${command:…}` in a string; `$$` is a literal `$`.

Applies to strings after the file has been parsed, and is not recursive: a value can neither inject keys nor refer to
other variables. As in a shell, the default replaces a variable that is unset or empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from codemode_server.config.places import MAX_BYTES, read_source
from codemode_server.domain.errors import SecretUnavailable
from codemode_server.secrets.references import Reference, References, check

_PART = re.compile(r"\$(?:\$|\{(?P<inside>[^}]*)(?P<end>\}?))")
_NAME = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)")
_REFERENCE = re.compile(r"(keyring|command):(.*)", re.DOTALL)
_FROM_HOSTS = {"userHome": "HOME"}


@dataclass(frozen=True, slots=True)
class Expansion:
    text: str
    used: tuple[tuple[str, str, bool], ...] = ()
    """Names and values of the expanded variables; True for a default."""
    secrets: tuple[tuple[Reference, str | None], ...] = ()
    """References to secrets with their values; None for one that is left as it is written."""


class NotExpandable(Exception):
    """Raised when a string can't be expanded; the message says why and holds no value."""


def expand(
    text: str, variables: Mapping[str, str], references: References | None = None, *, may_run: bool = True
) -> Expansion:
    """`text` with its variables expanded, and with its references to secrets, if `references` says what they stand for.
    Without `may_run`, `${command:…}` is a variable of an editor."""
    if "$" not in text:
        return Expansion(text)
    used: list[tuple[str, str, bool]] = []
    secrets: list[tuple[Reference, str | None]] = []
    unset: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        inside = match["inside"]
        if inside is None:
            return "$"
        if "${" in inside or not match["end"]:
            raise NotExpandable(
                "a `${` is not closed by `}`, or has another in it; write `$${` if it is meant literally"
            )
        if reference := _to_secret(inside, may_run=may_run):
            secret = _resolved(reference, references)
            secrets.append((reference, secret))
            return match[0] if secret is None else secret
        name, default = _variable(inside)
        value = variables.get(name)
        if value is not None and (value or default is None):
            used.append((name, value, False))
            return value
        if default is None:
            unset.append(name)
            return ""
        used.append((name, default, True))
        return default

    expanded = _PART.sub(replaced, text)
    if unset:
        names = list(dict.fromkeys(unset))
        are, them = ("is", "it") if len(names) == 1 else ("are", "them")
        or_default = f", or write ${{{names[0]}:-default}}" if len(names) == 1 else ""
        where = "in the environment or in .env beside the file"
        raise NotExpandable(f"{', '.join(names)} {are} not set; set {them} {where}{or_default}")
    return Expansion(expanded, tuple(used), tuple(secrets))


def read_dotenv(path: Path, digests: dict[str, str], warnings: list[str], name: str) -> dict[str, str]:
    """The variables of a `.env` file, unexpanded; empty if there is no such file."""
    try:
        content = read_source(path, digests)
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        warnings.append(f"{name}: can't be read, so its variables are not known: {reason}")
        return {}
    if len(content) > MAX_BYTES:
        warnings.append(f"{name}: is larger than 1 MiB, so it is not read")
        return {}
    from io import StringIO

    from dotenv.parser import parse_stream

    variables: dict[str, str] = {}
    for binding in parse_stream(StringIO(text)):
        if binding.error:
            warnings.append(f"{name}:{binding.original.line}: not of the form NAME=value; left out")
        elif binding.key is not None and binding.value is not None:
            variables[binding.key] = binding.value
    return variables


def _to_secret(inside: str, *, may_run: bool) -> Reference | None:
    found = _REFERENCE.fullmatch(inside)
    if found is None or (found[1] == "command" and not may_run):
        return None
    reference = Reference("keyring" if found[1] == "keyring" else "command", found[2].strip())
    try:
        check(reference)
    except SecretUnavailable as error:
        raise NotExpandable(str(error)) from None
    return reference


def _resolved(reference: Reference, references: References | None) -> str | None:
    if references is None:
        raise NotExpandable(f"a `${{{reference.kind}:…}}` can't stand here, but only where secrets are expected")
    try:
        return references.value(reference)
    except SecretUnavailable as error:
        raise NotExpandable(str(error)) from None


def _variable(inside: str) -> tuple[str, str | None]:
    if inside in _FROM_HOSTS:
        return _FROM_HOSTS[inside], None
    name, separator, default = inside.partition(":-")
    match = _NAME.fullmatch(name)
    if match:
        return match[1], default if separator else None
    raise NotExpandable(
        "a `${…}` is not of the form ${NAME} or ${NAME:-default}, and those of editors are not known here; set a "
        "variable, also in .env beside the file, or write `$${` if it is meant literally"
    )
