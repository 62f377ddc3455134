"""The section `privacy` of `upstream.yaml`, and the settings of the detection, which guardrails share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from codemode_server.domain.privacy_tokens import DEFAULT_MAX_TOKENS, TokenLimits
from codemode_server.features.privacy.findings import Kind
from codemode_server.support.extras import missing_privacy
from codemode_server.support.setting_types import FeatureSettings, Glob, NamedServer, Section, seconds_of

ALL_KINDS = "*"
KindName = Annotated[str, Field(min_length=1, max_length=50)]
ModelName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
ProtectionMode = Literal["tokens", "values", "block"]
UnsearchedFiles = Literal["show", "mark", "refuse"]
_GLOB_MARKS = frozenset("*?[")


class DetectionFields(Section):
    """The detection of personal data."""

    allow: tuple[KindName, ...] = ()
    """Values that are not personal, whatever their case: `support@ourcompany.com`, `*@ourcompany.com`."""
    patterns: dict[KindName, str] = Field(default={})
    """Regular expressions of own kinds by name: `{"employee": "EMP-[0-9]{6}"}`."""
    fields: dict[KindName, tuple[KindName, ...]] = Field(default={})
    """Fields and columns whose values are of a kind, by kind: `{"birth_date": ["d"], "name": ["who"]}`, in any letter
    case."""
    thresholds: dict[KindName, Annotated[float, Field(ge=0)]] = Field(default={})
    """Minimum confidence by kind; 0.6 if it is not here. Above 1 turns a kind off."""
    release: dict[Glob, tuple[KindName, ...]] = Field(default={})
    """Kinds of personal data whose values tools receive, by glob `server/tool` or `server`: `{"crm": [email, name]}`.
    `"*"` as a kind stands for all. What several globs release adds up."""

    @field_validator("patterns")
    @classmethod
    def _patterns_are_sound(cls, patterns: dict[str, str]) -> dict[str, str]:
        for text in patterns.values():
            try:
                pattern = re.compile(text)
            except re.error as error:
                raise ValueError(f"{text!r} is no regular expression: {error}") from None
            if pattern.fullmatch(""):
                raise ValueError(f"{text!r} matches an empty text")
        return patterns

    @property
    def kinds(self) -> frozenset[str]:
        """All kinds that can be found."""
        return frozenset({*Kind, *self.patterns})

    @model_validator(mode="after")
    def _kinds_are_known(self) -> Self:
        named = {*self.thresholds, *self.fields, *(kind for kinds in self.release.values() for kind in kinds)}
        for name in sorted(named - {ALL_KINDS}):
            if name not in self.kinds:
                raise ValueError(f"there is no kind {name!r}; the kinds are {', '.join(sorted(self.kinds))}")
        return self


class PrivacySettings(DetectionFields, FeatureSettings):
    """Personal data in results of servers: the model sees tokens such as `<EMAIL_1>`, and tools receive the values.
    Needs the extra `privacy`."""

    key = "privacy"

    servers: dict[Glob, ProtectionMode] = Field(default={})
    """The protection of personal data in results, by glob over the names of servers; the first that matches decides.
    `tokens`: programs and the model see tokens in place of it; `block`: a result with any is refused; `values`:
    nothing, as for servers that no glob matches. A name that no server has is an error, unless it says `values`."""
    on_release: Literal["deny", "ask"] = "deny"
    """The decision on a call with a token whose value its tool may not receive. `ask`: a person is asked, who sees the
    values."""
    shown_files: Literal["refuse", "mark"] = "refuse"
    """Images and other binary files that are shown to the model. They can't be searched: they are left out, or shown
    with a remark that says so."""
    name_models: tuple[ModelName, ...] = Field(default=(), max_length=4)
    """Installed models of spaCy that find names of persons in free text, one for each language: `[en_core_web_sm]`. All
    of them search all free text, in their own time. Needs the extra `privacy-names`. Default: none."""
    max_tokens: int = Field(default=DEFAULT_MAX_TOKENS, ge=1, le=1_000_000)
    """How many tokens of a principal may stand for something. A server gets at most half of what the others leave; a
    result that would need more is withheld."""
    expire_after: str | None = Field(default=None, max_length=10)
    """How long a token stands for its value after a result had it last: `30d`, `12h`. Default: until you forget it
    (`codemode-server privacy forget`)."""

    @field_validator("servers")
    @classmethod
    def _servers_have_no_slash(cls, servers: dict[str, ProtectionMode]) -> dict[str, ProtectionMode]:
        for glob in servers:
            if "/" in glob:
                raise ValueError(f"{glob!r} is not a glob over the names of servers")
        return servers

    @field_validator("expire_after")
    @classmethod
    def _time_is_sound(cls, text: str | None) -> str | None:
        if text is not None:
            seconds_of(text)
        return text

    def named_servers(self) -> Iterator[NamedServer]:
        above: tuple[str, ...] = ()
        for glob, mode in self.servers.items():
            is_value = mode == "values"
            must_exist = not is_value and _GLOB_MARKS.isdisjoint(glob)
            yield NamedServer(("servers", glob), glob, must_exist, () if is_value else above)
            above += (glob,) * is_value
        for glob in self.release:
            yield NamedServer(("release", glob), glob.partition("/")[0])

    @cached_property
    def is_on(self) -> bool:
        """True if any server is protected."""
        return any(mode != "values" for mode in self.servers.values())

    @property
    def summary(self) -> str:
        """The protection on a line."""
        if not self.is_on:
            return "nothing is protected"
        servers = ", ".join(f"{glob} ({mode})" for glob, mode in self.servers.items())
        release = "; ".join(
            f"{glob} may receive {', '.join(kinds) or 'nothing'}" for glob, kinds in self.release.items()
        )
        names = f"; {', '.join(self.name_models)} finds names in free text" if self.name_models else ""
        if names and (lacking := missing_privacy(self.name_models)):
            names += f", but {lacking}"
        return f"{servers}; {release or 'no tool may receive any'}{names}"

    @property
    def unsearched_files(self) -> UnsearchedFiles:
        """The treatment of a file that is to be shown and can't be searched."""
        return self.shown_files if self.is_on else "show"

    @property
    def limits(self) -> TokenLimits:
        expire_seconds = None if self.expire_after is None else seconds_of(self.expire_after)
        return TokenLimits(self.max_tokens, expire_seconds)
