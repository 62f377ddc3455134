"""The section `guardrails` of `upstream.yaml`: which guardrails programs and calls pass, in which order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, TypeAlias

from pydantic import Field, field_validator

from codemode_server.support.setting_types import Glob, NamedServer, Seconds, Section

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class GuardrailSettings(Section):
    """One guardrail. It can only restrict: what the permissions deny stays denied."""

    use: str = Field(max_length=200)
    """`secrets`, `size`, `domains`, `personal_data`, or a class as `package.module:Class`. It is imported from what is
    installed, never from the current folder."""
    tools: tuple[Glob, ...] = ()
    """Only calls of tools that match one of these globs `server/tool` pass it; default: all. Programs and their results
    pass it in any case."""
    timeout: Seconds = 5.0
    """How long it may take for one answer, seconds; after that, what it was asked about is blocked."""
    settings: dict[str, Any] = Field(default={}, repr=False)
    """Settings of the guardrail's own."""

    read_at_start = None  # it is code that is loaded

    def named_servers(self) -> Iterator[NamedServer]:
        for at, glob in enumerate(self.tools):
            yield NamedServer(("tools", at), glob.partition("/")[0])

    @field_validator("use")
    @classmethod
    def _use_is_a_name(cls, use: str) -> str:
        if not (_NAME.fullmatch(use) or _DOTTED.fullmatch(use)):
            raise ValueError("is neither a name, as `secrets`, nor a class, as `package.module:Class`")
        return use

    @field_validator("tools")
    @classmethod
    def _globs_are_whole(cls, globs: tuple[str, ...]) -> tuple[str, ...]:
        for glob in globs:
            if glob.startswith("/") or glob.endswith("/"):
                raise ValueError("is not of the form `server/tool` or `server`")
        return globs


Guardrails: TypeAlias = Annotated[
    tuple[GuardrailSettings, ...],
    Field(
        default=(),
        description="Validators that programs, calls and results pass, in this order. Read at the start.",
    ),
]


def guardrails_of(settings: Section) -> tuple[GuardrailSettings, ...]:
    guardrails: tuple[GuardrailSettings, ...] = vars(settings)["guardrails"]
    return guardrails
