"""Takes secrets that are written out in a server's entry out of it, and puts variables in their place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from codemode_server.config.secrecy import NO_SECRETS, Secrets, looks_secret, named_arguments
from codemode_server.config.yaml_edits import Plain
from codemode_server.domain.errors import CodemodeError
from codemode_server.known_tokens import KNOWN_TOKEN
from codemode_server.settings import ServerSettings

_SCHEME = re.compile(r"((?:bearer|basic|token|apikey|digest|negotiate)\s+)?(\S.*)", re.IGNORECASE | re.DOTALL)
_PASSWORD = re.compile(r"(?<=://)([^:/@?#\s]*):([^@/?#\s]+)@")
_VARIABLE = re.compile(r"\$\{[^}]*\}")
_REFERENCE = re.compile(r"(?<!\$)(?:\$\$)*\$\{")
"""A `$${` is plain text."""
_MAX_SECRETS = 100
"""Maximum per server: the work grows with their square."""


@dataclass(slots=True)
class SecretNames:
    """Names for the secrets that are taken out."""

    stored: Mapping[str, str]
    """The values that are stored already, by name; an equal value keeps its name."""
    environ: Mapping[str, str]
    """Takes precedence over what is stored, so a name with another value there is not used."""
    reference: str = "${%s}"
    """How an entry refers to a name."""
    added: dict[str, str] = field(default_factory=dict, repr=False)

    def reference_to(self, value: str, name: str, server: str, *, is_variable: bool) -> str:
        """A reference to a new name for this value. `is_variable`: the name is a variable's already."""
        value = value.replace("$$", "$")
        base, prefix = _variable_name(name), _variable_name(server)
        prefixed = base if base.startswith(prefix) else f"{prefix}_{base}"
        first = [name] if is_variable and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else []
        candidates = chain(first, [prefixed], (f"{prefixed}_{number}" for number in count(2)))
        chosen = next(it for it in candidates if self._is_free(it, value))
        if chosen not in self.stored:
            self.added[chosen] = value
        return self.reference % chosen

    def _is_free(self, name: str, value: str) -> bool:
        values = (self.stored.get(name), self.added.get(name), self.environ.get(name))
        return all(it is None or it == value for it in values)


def without_literal_secrets(server: str, entry: Mapping[str, Plain], storage: SecretNames) -> dict[str, Plain]:
    """The entry with references in place of secrets. Raises `CodemodeError` if it has too many."""
    env, headers = _texts(entry, "env"), _texts(entry, "headers")
    given = entry.get("args")
    args = [str(arg) for arg in given] if isinstance(given, list | tuple) else []
    fields: dict[str, Any] = {"env": env, "headers": headers, "args": args, "url": entry.get("url")}
    found = Secrets()
    found.add_server(ServerSettings.model_construct(**fields))
    secrets = {it for it in found.values | found.short if not _REFERENCE.search(it)}
    if len(secrets) > _MAX_SECRETS:
        raise CodemodeError(f"has more than {_MAX_SECRETS} secrets, which no server needs")
    long = secrets & found.values
    # The parts of a secret, for instance the password in `user:password`, are put in place of the whole.
    parts = sorted((it for it in long if not any(it != part and part in it for part in long)), key=len, reverse=True)

    def reference(value: str, name: str, *, is_variable: bool = False) -> str:
        return storage.reference_to(value, name, server, is_variable=is_variable)

    def password(match: re.Match[str]) -> str:
        return match[0] if _REFERENCE.search(match[2]) else f"{match[1]}:{reference(match[2], 'PASSWORD')}@"

    def inside(text: str, name: str) -> str:
        """The text with references in place of the secrets within it."""
        text = _PASSWORD.sub(password, text)
        for secret in parts:
            if secret in _VARIABLE.sub("", text):
                text = text.replace(secret, reference(secret, name))
        return KNOWN_TOKEN.sub(lambda match: reference(match[0], name), text)

    def is_secret(name: str, value: str) -> bool:
        return looks_secret(name) and value.strip() in secrets and not _REFERENCE.search(value)

    def variable(name: str, value: str) -> str:
        if is_secret(name, value) and value.casefold() not in NO_SECRETS:
            return reference(value, name, is_variable=True)
        return inside(value, name)

    def after_scheme(name: str, value: str) -> str:
        name = "TOKEN" if name.casefold() == "authorization" else name
        match = _SCHEME.fullmatch(value)
        return f"{match[1] or ''}{reference(match[2], name)}" if match else value

    def argument(arg: str) -> str:
        for name, value in named_arguments(args):
            is_whole = arg == value or arg.removesuffix(value).rstrip()[-1:] in ("=", ":")
            if value and is_secret(name, value) and arg.endswith(value) and is_whole:
                return arg[: -len(value)] + after_scheme(name, value)
        return inside(arg, "KEY")

    changed = dict(entry)
    if env:
        changed["env"] = {name: variable(name, it) for name, it in env.items()}
    if headers:
        changed["headers"] = {
            name: after_scheme(name, it) if is_secret(name, it) else inside(it, name) for name, it in headers.items()
        }
    if args:
        changed["args"] = [argument(arg) for arg in args]
    if isinstance(url := entry.get("url"), str):
        changed["url"] = inside(url, "URL_KEY")
    if isinstance(oauth := entry.get("oauth"), Mapping):
        changed["oauth"] = {
            name: reference(it, name)
            if isinstance(it, str) and it and looks_secret(name) and not _REFERENCE.search(it)
            else it
            for name, it in oauth.items()
        }
    return changed


def _texts(entry: Mapping[str, Plain], key: str) -> dict[str, str]:
    section = entry.get(key)
    return {name: str(value) for name, value in section.items()} if isinstance(section, Mapping) else {}


def _variable_name(text: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    name = re.sub(r"[^A-Za-z0-9]+", "_", words).strip("_").upper() or "KEY"
    return f"_{name}" if name[0].isdigit() else name
