"""Shared by the models of settings: their base class, field types, and the error that belongs to one key."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


def _not_a_claim(value: object) -> object:
    """Python counts True as 1; a person who writes `timeout: yes` means something else."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")  # noqa: TRY004 - pydantic takes ValueError only
    return value


Number = Annotated[int, BeforeValidator(_not_a_claim)]
Seconds = Annotated[float, BeforeValidator(_not_a_claim), Field(gt=0, le=86_400)]
Label = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
"""Kind of data that a tool reads, or kind of place where it sends data."""
RuleEffect = Literal["read", "write", "destructive"]
"""The effect of a tool, as the configuration names it."""
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


_UNITS = {"m": 60.0, "h": 3_600.0, "d": 86_400.0}


def seconds_of(text: str) -> float:
    """The seconds of `30d`, `12h` or `30m`. Raises `ValueError`."""
    if re.fullmatch(r"[1-9][0-9]{0,4}[mhd]", text) is None:
        raise ValueError("is not of the form `30d`, `12h` or `30m`")
    return int(text[:-1]) * _UNITS[text[-1]]


def _can_be_passed(environment: dict[str, str]) -> dict[str, str]:
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name:
            raise ProblemWithin("is not the name of an environment variable", name)
        if "\0" in value:
            raise ProblemWithin("holds a NUL character", name)
    return environment


Environment = Annotated[dict[str, str], AfterValidator(_can_be_passed)]
"""Variables that a process gets."""


class Holds(Enum):
    """Marks fields whose values are masked."""

    SECRET = auto()
    ADDRESS = auto()
    """User information and parameters in it are secrets."""


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A place where settings name a server."""

    place: tuple[str | int, ...]
    """Within the section."""
    glob: str
    must_exist: bool = False
    """True if a name that no server has is an error: it would leave data unprotected."""
    above: tuple[str, ...] = ()
    """Globs that decide first; one that leaves nothing to this is an error."""
    may_be_label: bool = False
    """True if it may name a label as well."""


class Section(BaseModel):
    """One mapping of `upstream.yaml`. The docstring under each field is its documentation in the JSON Schema. Not
    `use_attribute_docstrings`: it parses the source at each import, 40 ms before the host's handshake."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    read_at_start: ClassVar[Collection[str] | None] = ()
    """The fields that are read once, at the start; None: all. The others follow an edited file."""

    def completed(self, variables: Mapping[str, str]) -> Self:
        """The section with what environment variables say in place of what the file leaves out."""
        return self

    def named_servers(self) -> Iterator[NamedServer]:
        """The names and globs of servers in this section."""
        yield from ()


class FeatureSettings(Section):
    """A section that belongs to a feature."""

    key: ClassVar[str]

    @classmethod
    def of(cls, settings: Section) -> Self:
        """This section of the settings."""
        section: Self = vars(settings)[cls.key]
        return section


class ProblemWithin(PydanticCustomError):
    """A refusal that belongs to one key or item of what is being validated, and is shown there."""

    def __new__(cls, message: str, member: str | int) -> Self:
        return super().__new__(cls, "problem_within", "{message}", {"message": message, "member": member})


def _checked_glob(pattern: str) -> str:
    """Refuse what `fnmatch` would silently take literally or never match."""
    if any(character.isspace() for character in pattern):
        raise ValueError("the glob contains white space")
    if "{" in pattern or "}" in pattern:
        raise ValueError("globs know `*`, `?` and `[…]`, no braces; write one glob for each alternative")
    position = 0
    while (start := pattern.find("[", position)) >= 0:
        first = start + 2 if pattern[start + 1 : start + 2] == "!" else start + 1
        end = pattern.find("]", first + 1)
        if end < 0:
            raise ValueError("the glob has an unclosed bracket")
        for low, high in re.findall(r"(.)-(.)", pattern[first:end]):
            if low > high:
                raise ValueError(f"the glob has a range that matches nothing: from {low!r} down to {high!r}")
        position = end + 1
    return pattern


Glob = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_checked_glob)]


def checked_address(url: str) -> str:
    """Refuse what is no address over HTTP."""
    if not re.match(r"https?://[^/?#\s]+\S*$", url):
        raise ValueError("must begin with http:// or https:// and name a host")
    return url


def is_safe_scheme(url: str) -> bool:
    """True if data can't be read or changed on the way there: https, or http within this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS)
