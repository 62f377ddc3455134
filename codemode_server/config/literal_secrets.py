"""Takes secrets that are written out in a server's entry out of it, and puts variables in their place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from codemode_server.config.secrecy import Secrets, looks_secret, named_arguments
from codemode_server.config.yaml_writing import Plain
from codemode_server.domain.errors import CodemodeError
from codemode_server.known_tokens import KNOWN_TOKEN
from codemode_server.settings import ServerSettings

_SCHEME = re.compile(r"((?:bearer|basic|token|apikey|digest|negotiate)\s+)(\S.*)", re.IGNORECASE | re.DOTALL)
_PASSWORD = re.compile(r"(?<=://)([^:/@?#\s]*):([^@/?#\s]+)@")
_NO_SECRETS = frozenset({"true", "false", "yes", "no", "on", "off", "none", "null", "0", "1"})
_IS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE = re.compile(r"\$\{[^}]*\}")
_REFERENCE = re.compile(r"(?<!\$)(?:\$\$)*\$\{")
"""A `$${` is plain text."""

_MAX_SECRETS = 100
"""Of one server: the work grows with their square."""


@dataclass(slots=True)
class SecretNames:
    """Names for the secrets that are taken out."""

    stored: Mapping[str, str]
    """What is stored already, by name; an equal value keeps its name."""
    environ: Mapping[str, str]
    """Takes precedence over what is stored, so a name with another value there is not used."""
    reference: str = "${%s}"
    """How an entry refers to a name."""
    added: dict[str, str] = field(default_factory=dict, repr=False)

    def reference_to(self, value: str, name: str, server: str, *, is_variable: bool) -> str:
        """A reference to a new name for this value. `is_variable`: the name is a variable's already."""
        base = _variable_name(name)
        prefixed = base if base.startswith(_variable_name(server)) else f"{_variable_name(server)}_{base}"
        first = [name] if is_variable and _IS_NAME.fullmatch(name) else []
        candidates = chain(first, [prefixed], (f"{prefixed}_{number}" for number in count(2)))
        chosen = next(it for it in candidates if self._is_free(it, value))
        if chosen not in self.stored:
            self.added[chosen] = value
        return self.reference % chosen

    def _is_free(self, name: str, value: str) -> bool:
        known = (self.stored.get(name), self.added.get(name), self.environ.get(name))
        return all(it is None or it == value for it in known)


def without_literal_secrets(
    server: str, entry: Mapping[str, Plain], storage: SecretNames, from_env_file: frozenset[str] = frozenset()
) -> dict[str, Plain]:
    """The entry with references in place of secrets. All variables in `from_env_file` count as secrets: the person has
    put them into a file of their own.

    Raises:
        CodemodeError: it has too many.
    """
    return _Extraction(server, entry, storage, from_env_file).run()


class _Extraction:
    def __init__(
        self, server: str, entry: Mapping[str, Plain], storage: SecretNames, from_env_file: frozenset[str]
    ) -> None:
        self._server, self._entry, self._storage, self._from_env_file = server, dict(entry), storage, from_env_file
        fields: dict[str, Any] = {
            "env": self._texts("env"),
            "headers": self._texts("headers"),
            "args": self._args(),
            "url": entry.get("url"),
        }
        secrets = Secrets()
        secrets.add_server(ServerSettings.model_construct(**fields))
        self._known = {it for it in secrets.values | secrets.short if not _REFERENCE.search(it)}
        if len(self._known) > _MAX_SECRETS:
            raise CodemodeError(f"has more than {_MAX_SECRETS} secrets, which no server needs")
        long = self._known & secrets.values
        # The parts of a secret, for instance the password in `user:password`, are put in place of the whole.
        self._within = sorted((it for it in long if not any(it != part and part in it for part in long)), key=len)[::-1]

    def run(self) -> dict[str, Plain]:
        entry = self._entry
        if env := self._texts("env"):
            entry["env"] = {name: self._env(name, value) for name, value in env.items()}
        if headers := self._texts("headers"):
            entry["headers"] = {name: self._header(name, value) for name, value in headers.items()}
        if args := self._args():
            named = {value: name for name, value in named_arguments(args) if name and looks_secret(name)}
            entry["args"] = [self._arg(arg, named) for arg in args]
        if isinstance(url := entry.get("url"), str):
            entry["url"] = self._inside(url, "URL_KEY")
        if isinstance(oauth := entry.get("oauth"), Mapping):
            entry["oauth"] = {name: self._setting(name, value) for name, value in oauth.items()}
        return entry

    def _env(self, name: str, value: str) -> str:
        is_secret = name in self._from_env_file or (looks_secret(name) and self._is_known(value))
        if is_secret and value and not _REFERENCE.search(value) and value.casefold() not in _NO_SECRETS:
            return self._reference(value, name, is_variable=True)
        return self._inside(value, name)

    def _setting(self, name: str, value: Plain) -> Plain:
        if isinstance(value, str) and value and looks_secret(name) and not _REFERENCE.search(value):
            return self._reference(value, name)
        return value

    def _header(self, name: str, value: str) -> str:
        if not looks_secret(name) or _REFERENCE.search(value) or not self._is_known(value):
            return self._inside(value, name)
        return self._after_scheme(value, name)

    def _arg(self, arg: str, named: Mapping[str, str]) -> str:
        for value, name in named.items():
            is_whole = arg == value or arg.removesuffix(value).rstrip()[-1:] in ("=", ":")
            if value and not _REFERENCE.search(value) and arg.endswith(value) and is_whole and self._is_known(value):
                return arg[: -len(value)] + self._after_scheme(value, name)
        return self._inside(arg, "KEY")

    def _after_scheme(self, value: str, name: str) -> str:
        name = "TOKEN" if name.casefold() == "authorization" else name
        scheme = _SCHEME.fullmatch(value)
        return scheme[1] + self._reference(scheme[2], name) if scheme else self._reference(value, name)

    def _inside(self, text: str, name: str) -> str:
        """The text with references in place of the secrets within it."""
        text = _PASSWORD.sub(self._password, text)
        for secret in self._within:
            if secret in _VARIABLE.sub("", text):
                text = text.replace(secret, self._reference(secret, name))
        return KNOWN_TOKEN.sub(lambda found: self._reference(found[0], name), text)

    def _password(self, found: re.Match[str]) -> str:
        if _REFERENCE.search(found[2]):
            return found[0]
        return f"{found[1]}:{self._reference(found[2], 'PASSWORD')}@"

    def _reference(self, value: str, name: str, *, is_variable: bool = False) -> str:
        return self._storage.reference_to(value.replace("$$", "$"), name, self._server, is_variable=is_variable)

    def _is_known(self, value: str) -> bool:
        return value.strip() in self._known

    def _texts(self, key: str) -> dict[str, str]:
        section = self._entry.get(key)
        return {name: str(value) for name, value in section.items()} if isinstance(section, Mapping) else {}

    def _args(self) -> list[str]:
        args = self._entry.get("args")
        return [str(arg) for arg in args] if isinstance(args, (list, tuple)) else []


def _variable_name(text: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    name = re.sub(r"[^A-Za-z0-9]+", "_", words).strip("_").upper() or "KEY"
    return f"_{name}" if name[0].isdigit() else name
