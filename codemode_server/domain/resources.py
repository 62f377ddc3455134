"""Resources, templates and prompts, as the upstreams declared them. No I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    uri: str
    """The URI to read; of a template, its URI template (RFC 6570)."""
    name: str
    title: str | None = None
    description: str = ""
    mime_type: str | None = None
    size: int | None = None
    is_template: bool = False
    shown_uri: str = ""
    """The URI that stands for it where the model or a program reads, if that must not see the real one."""

    @property
    def public_uri(self) -> str:
        """The URI as the model and programs see and name it."""
        return self.shown_uri or self.uri


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One argument of a prompt; its value is always text."""

    name: str
    description: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class PromptDefinition:
    name: str
    title: str | None = None
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()
