"""Decides which values of a configuration are secrets, to be masked in logs, traces, errors, stubs and results.

These are the values of references to secrets (`${keyring:…}`, `${command:…}`), those of variables in a server's `env`,
`headers`, `args` or `url`, and literal values there under a name that looks secret. A secret is masked wherever it
occurs, so false positives would corrupt results: short values, common words, numbers, paths and plain addresses are
none, unless their name says so. Secrets that are too short are masked only in the output of `describe`. The person is
warned about these and about guessable ones: a program can test guesses, since a correct guess comes back masked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from codemode_server.config.settings import ServerSettings
from codemode_server.secrets.commands import words_of

MIN_LENGTH = 6

_SAFE_LENGTH = 8
_SAFE_DIGITS = 12
_MAX_NAME_CHARACTERS = 80
_MAX_JSON_CHARACTERS = 100_000

_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|pwd|credential|cookie|session|bearer|auth|signature|private|\b(?:pg)?pass\b|\bpw\b|\bpin\b"
    r"|\bpat\b|\bjwt\b|\bdsn\b|\bsig\b|\bkeys?\b|apikey|accesskey"
)
_NO_SECRET_NAME = re.compile(
    r"author(?!i[sz])|public key|keyboard|keyword|key (?:name|type|prefix|size)|token (?:type|limit)|cookie name"
    r"|(?:auth|session) (?:mode|type|method|scheme|flow|name|enabled|server)"
)
_PLACE_NAME = re.compile(r"\b(?:file|path|dir|folder|home|url|uri|endpoint|host|cert|credential)s?$")
_QUANTITY_NAME = re.compile(
    r"(?:^|[_ -])(?:max|min|limit|timeout|ttl|count|size|length|port|seconds|minutes|expiry|budget)"
)
_INNOCENT_VARIABLES = re.compile(
    r"HOME|USER|LOGNAME|USERNAME|PATH|PWD|SHELL|LANG|LC_\w+|TERM|TZ|TMP|TEMP|TMPDIR|HOSTNAME|DISPLAY|XDG_\w+"
)
# fmt: off
_COMMON_PASSWORDS = frozenset({
    "admin", "administrator", "change-me", "changeme", "mariadb", "master", "mysql", "passwd", "password",
    "postgres", "postgresql", "secret", "secrets",
})
"""Common words that may have been chosen as a secret."""
_COMMON = _COMMON_PASSWORDS | frozenset({
    "always", "anonymous", "application/json", "basic", "bearer", "boolean", "c.utf-8", "critical", "default",
    "development", "disabled", "dummy", "en_us.utf-8", "enabled", "eu-central-1", "eu-west-1", "example",
    "external", "global", "internal", "latest", "legacy", "localhost", "mongodb", "no-auth", "noauth", "not-set",
    "notset", "number", "optional", "placeholder", "private", "production", "public", "read-only", "read-write",
    "readonly", "redis", "required", "stable", "staging", "standard", "strict", "string", "testing",
    "text/event-stream", "text/plain", "undefined", "unknown", "us-east-1", "us-west-2", "username", "utf-8",
    "verbose", "warning", "your-api-key", "your-token",
})
# fmt: on
_UNRESOLVED = re.compile(r"\$\{(?:keyring|command):")
"""A reference that is left as it is written, by `config check` for instance, and names a secret only."""
NOT_SECRET_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "none", "null", "0", "1"})
_PATH = re.compile(r"(?:~|\.{1,2})?(?:/[\w .@%-]+)+/?|/")
_FILE_NAME = re.compile(r".*\.(?:json|pem|key|crt|p12|txt|ya?ml|toml|ini|conf|env|db|sqlite3?)", re.IGNORECASE)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://\S+")
"""The scheme is bounded: the search would take time that grows with the square of a long word."""
_HOST = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,24}(?::\d+)?|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|[a-z-]+:\d+", re.IGNORECASE)
_KEY_IN_PATH = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_-]{20,}")
SCHEME = re.compile(r"((?:bearer|basic|token|apikey|digest|negotiate)\s+)?(\S.*)", re.IGNORECASE | re.DOTALL)
"""The credentials of a header, with their scheme if they have one."""
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*")
_FLAG = re.compile(r"--?([A-Za-z][\w.-]*)(?:[=:](.*))?", re.DOTALL)
_PAIR = re.compile(r"([A-Za-z_][\w-]*)(=|:\s*)(.+)", re.DOTALL)


def looks_secret(name: str) -> bool:
    """True if a name looks like that of a secret: `GITHUB_TOKEN`, `X-Api-Key`, `clientSecret`."""
    return bool(_SECRET_NAME.search(_NO_SECRET_NAME.sub("", _words(name))))


@dataclass(slots=True)
class Secrets:
    values: set[str] = field(default_factory=set)
    short: set[str] = field(default_factory=set)
    """Too short or too common to be masked everywhere."""
    weak: dict[str, str] = field(default_factory=dict)
    """Name of a variable or setting → why its secret is poorly protected."""

    def add_server(self, server: ServerSettings) -> None:
        """Adds values in a server's settings whose name looks secret."""
        for name, value in server.env.items():
            self._add_named(name, value)
        for name, value in server.headers.items():
            self._add_named(name, value)
        self._add_arguments(server.args)
        if server.headers_command is not None:
            self._add_arguments(words_of(server.headers_command))
        if server.oauth is not None:
            self.add_named("oauth.client_secret", server.oauth.client_secret)
        if server.url is not None:
            self.add_address(server.url)

    def add_variable(self, variable: str, key: str, value: str, *, is_default: bool) -> None:
        """Adds the value of a variable used in a server's settings under `key`, or its default."""
        if looks_secret(variable) or looks_secret(key):
            self._add_named(variable if looks_secret(variable) else key, value)
        elif not is_default and not _INNOCENT_VARIABLES.fullmatch(variable):
            self._add_unnamed(value)

    def add_named(self, name: str, value: str | None) -> None:
        """Adds the value of a setting that is always a secret."""
        if value:
            self._add_named("secret", value, shown_as=name)

    def add_reference(self, reference: str, value: str) -> None:
        """Adds the value of a `${keyring:…}` or `${command:…}`, whatever it looks like."""
        self._add(value)
        self.add_named(reference, value)

    def _add_named(self, name: str, value: str, shown_as: str = "") -> None:
        words = _words(name)
        if looks_secret(name) and (_PLACE_NAME.search(words) or _FILE_NAME.fullmatch(value)):
            self._add_unnamed(value)
        elif looks_secret(name) and not (value.strip().isdigit() and _QUANTITY_NAME.search(words)):
            credentials = SCHEME.fullmatch(value.strip())
            self._judge(shown_as or name, credentials[2] if credentials else value.strip())
            self._add_whole(value)
            if "cookie" in words:
                for cookie in value.split(";"):
                    self._add(cookie.partition("=")[2])
        self._add_within(value)

    def _add_unnamed(self, value: str) -> None:
        """Adds a value whose name does not look secret."""
        text = value.strip()
        if _ADDRESS.fullmatch(text):
            self.add_address(text)
        elif not (_PATH.fullmatch(text) or _HOST.fullmatch(text) or _NUMBER.fullmatch(text)):
            self._add_whole(value)

    def _add_whole(self, value: str) -> None:
        """Adds a value with the secrets in it: behind `Bearer`, and in a JSON object such as a service account's."""
        self._add(value)
        credentials = SCHEME.fullmatch(value.strip())
        if credentials is not None and credentials[1]:
            self._add(credentials[2])
            if value.strip().casefold().startswith("basic"):
                import base64

                with suppress(ValueError):
                    decoded = base64.b64decode(credentials[2].strip(), validate=True).decode()
                    self._add(decoded)
                    self._add(decoded.partition(":")[2])
        if value.lstrip().startswith("{") and len(value) <= _MAX_JSON_CHARACTERS:
            with suppress(ValueError, RecursionError):
                for name, inner in json.loads(value).items():
                    if isinstance(inner, str) and looks_secret(name):
                        self._add(inner)

    def _add_within(self, value: str) -> None:
        """Adds credentials inside a text that as a whole is not a secret."""
        for address in _ADDRESS.findall(value):
            self.add_address(address)

    def _add_arguments(self, args: Iterable[str]) -> None:
        for name, value in named_arguments(args):
            if name and looks_secret(name):
                self._add_named(name, value)
            else:
                self._add_within(value)

    def add_address(self, address: str | None) -> None:
        try:
            parts = urlsplit(address or "")
            password, user = parts.password, parts.username
        except ValueError:
            self._add(address or "")
            return
        for value in (password, user if password is None else None):
            if value:
                self._add(value)
                self._add(unquote(value))
        if password is not None and user:
            self._add(f"{user}:{password}")
        for query in (parts.query, parts.fragment):
            for name, value in parse_qsl(query):
                if looks_secret(name):
                    self._add(value)
                    self._add(quote(value, safe=""))
        for segment in parts.path.split("/"):
            if _KEY_IN_PATH.fullmatch(segment):
                self._add(segment)

    def _judge(self, name: str, text: str) -> None:
        """Records a warning if the secret is poorly protected."""
        if not text or text.casefold() in NOT_SECRET_WORDS:
            return
        if len(text) < MIN_LENGTH:
            why = f"this secret has fewer than {MIN_LENGTH} characters, so it is not masked in logs and results"
        elif text.casefold() in _COMMON_PASSWORDS:
            why = "this secret is a common word, so it is not masked in logs and results"
        elif len(text) < _SAFE_LENGTH or (text.isdigit() and len(text) < _SAFE_DIGITS):
            why = "this secret is short enough to be guessed: a program that prints the right guess sees it masked"
        else:
            return
        self.weak[name[:_MAX_NAME_CHARACTERS]] = f"{why}; replace it by a long random one"

    def _add(self, value: str) -> None:
        text = value.strip()
        if not text or _UNRESOLVED.search(text):
            return
        if len(text) < MIN_LENGTH or text.casefold() in _COMMON:
            self.short.add(text)
            return
        found = {text}
        # A private key shows up line by line in logs; in a variable it often has `\\n` in place of line ends.
        unescaped = text.replace("\\r", "").replace("\\n", "\n")
        lines = [line.strip() for line in unescaped.splitlines()]
        if len(lines) > 1:
            found |= {unescaped, *(line for line in lines if len(line) >= 20 and not line.startswith("-----"))}
        self.values |= found


def named_arguments(args: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The values in command-line arguments with their names; the name is empty if there is none. Knows `--token X`,
    `--token=X`, `-e TOKEN=X`, `TOKEN=X` and `--header "Authorization: X"`."""
    pending = ""
    for arg in args:
        flag = _FLAG.fullmatch(arg)
        if flag and not (pending and looks_secret(pending) and not arg.startswith("--")):
            pending = flag[1]
            if flag[2] is not None:
                yield _inner(pending, flag[2])
                pending = ""
            continue
        yield _inner(pending, arg)
        pending = ""


def _inner(name: str, value: str) -> tuple[str, str]:
    """`-e TOKEN=X` is X under the name TOKEN."""
    if looks_secret(name):
        return name, value
    pair = _PAIR.fullmatch(value)
    if pair and not pair[3].startswith("//"):
        return pair[1], pair[3]
    return name, value


def _words(name: str) -> str:
    """`GITHUB_TOKEN`, `github-token` and `githubToken` are all `github token`."""
    return re.sub(r"[^a-z0-9]+", " ", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).casefold())
