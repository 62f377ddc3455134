"""Takes secrets that are written out in a server's entry out of it, and puts variables in their place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from codemode_server.config.secrecy import Secrets, looks_secret, named_arguments
from codemode_server.config.yaml_edits import Plain
from codemode_server.domain.errors import CodemodeError
from codemode_server.known_tokens import KNOWN_TOKEN
from codemode_server.settings import ServerSettings

_SCHEME = re.compile(r"((?:bearer|basic|token|apikey|digest|negotiate)\s+)?(\S.*)", re.IGNORECASE | re.DOTALL)
_PASSWORD = re.compile(r"(?<=://)([^:/@?#\s]*):([^@/?#\s]+)@")
_NO_SECRETS = frozenset({"true", "false", "yes", "no", "on", "off", "none", "null", "0", "1"})
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


def without_literal_secrets(
    server: str, entry: Mapping[str, Plain], storage: SecretNames, from_env_file: frozenset[str] = frozenset()
) -> dict[str, Plain]:
    """The entry with references in place of secrets. All variables in `from_env_file` count as secrets: the person has
    put them into a file of their own.

    Raises:
        CodemodeError: it has too many.
    """
    env, headers = _texts(entry, "env"), _texts(entry, "headers")
    given = entry.get("args")
    args = [str(arg) for arg in given] if isinstance(given, list | tuple) else []
    fields: dict[str, Any] = {"env": env, "headers": headers, "args": args, "url": entry.get("url")}
    secrets = Secrets()
    secrets.add_server(ServerSettings.model_construct(**fields))
    extraction = _Extraction(server, storage, secrets)
    changed = dict(entry)
    if env:
        changed["env"] = {name: extraction.env(name, it, is_secret=name in from_env_file) for name, it in env.items()}
    if headers:
        changed["headers"] = {name: extraction.header(name, value) for name, value in headers.items()}
    if args:
        named = {value: name for name, value in named_arguments(args) if name and looks_secret(name)}
        changed["args"] = [extraction.argument(arg, named) for arg in args]
    if isinstance(url := entry.get("url"), str):
        changed["url"] = extraction.inside(url, "URL_KEY")
    if isinstance(oauth := entry.get("oauth"), Mapping):
        changed["oauth"] = {name: extraction.setting(name, value) for name, value in oauth.items()}
    return changed


class _Extraction:
    def __init__(self, server: str, storage: SecretNames, secrets: Secrets) -> None:
        self._server, self._storage = server, storage
        self._secrets = {it for it in secrets.values | secrets.short if not _REFERENCE.search(it)}
        if len(self._secrets) > _MAX_SECRETS:
            raise CodemodeError(f"has more than {_MAX_SECRETS} secrets, which no server needs")
        long = self._secrets & secrets.values
        # The parts of a secret, for instance the password in `user:password`, are put in place of the whole.
        self._within = sorted((it for it in long if not any(it != part and part in it for part in long)), key=len)[::-1]

    def env(self, name: str, value: str, *, is_secret: bool) -> str:
        is_secret = is_secret or (looks_secret(name) and value.strip() in self._secrets)
        if is_secret and value and not _REFERENCE.search(value) and value.casefold() not in _NO_SECRETS:
            return self._reference(value, name, is_variable=True)
        return self.inside(value, name)

    def setting(self, name: str, value: Plain) -> Plain:
        is_secret = isinstance(value, str) and value and looks_secret(name) and not _REFERENCE.search(value)
        return self._reference(str(value), name) if is_secret else value

    def header(self, name: str, value: str) -> str:
        if not looks_secret(name) or _REFERENCE.search(value) or value.strip() not in self._secrets:
            return self.inside(value, name)
        return self._after_scheme(value, name)

    def argument(self, arg: str, named: Mapping[str, str]) -> str:
        for value, name in named.items():
            is_whole = arg == value or arg.removesuffix(value).rstrip()[-1:] in ("=", ":")
            is_secret = value.strip() in self._secrets and not _REFERENCE.search(value)
            if value and is_secret and arg.endswith(value) and is_whole:
                return arg[: -len(value)] + self._after_scheme(value, name)
        return self.inside(arg, "KEY")

    def inside(self, text: str, name: str) -> str:
        """The text with references in place of the secrets within it."""
        text = _PASSWORD.sub(self._password, text)
        for secret in self._within:
            if secret in _VARIABLE.sub("", text):
                text = text.replace(secret, self._reference(secret, name))
        return KNOWN_TOKEN.sub(lambda match: self._reference(match[0], name), text)

    def _after_scheme(self, value: str, name: str) -> str:
        name = "TOKEN" if name.casefold() == "authorization" else name
        match = _SCHEME.fullmatch(value)
        return f"{match[1] or ''}{self._reference(match[2], name)}" if match else value

    def _password(self, match: re.Match[str]) -> str:
        return match[0] if _REFERENCE.search(match[2]) else f"{match[1]}:{self._reference(match[2], 'PASSWORD')}@"

    def _reference(self, value: str, name: str, *, is_variable: bool = False) -> str:
        return self._storage.reference_to(value, name, self._server, is_variable=is_variable)


def _texts(entry: Mapping[str, Plain], key: str) -> dict[str, str]:
    section = entry.get(key)
    return {name: str(value) for name, value in section.items()} if isinstance(section, Mapping) else {}


def _variable_name(text: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    name = re.sub(r"[^A-Za-z0-9]+", "_", words).strip("_").upper() or "KEY"
    return f"_{name}" if name[0].isdigit() else name
