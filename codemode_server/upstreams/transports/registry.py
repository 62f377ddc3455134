"""The transports to upstreams, each described by a value: a module of this folder that has a `TRANSPORT` is one.

`ServerSettings` is made of the settings of all of them, and a connection opens the one whose selector is set. Listing
them imports nothing of the MCP library.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

from pydantic import Field, create_model, model_validator

from codemode_server.domain.input_requests import Feature
from codemode_server.support.setting_types import Glob, Label, ProblemWithin, RuleEffect, Seconds, Section
from codemode_server.upstreams import transports as package

if TYPE_CHECKING:
    from codemode_server.upstreams.connection_deps import ConnectionDeps
    from codemode_server.upstreams.session import Channel
    from codemode_server.upstreams.transports.http import HttpSettings
    from codemode_server.upstreams.transports.stdio import StdioSettings

refusals: ContextVar[list[str] | None] = ContextVar("refusals", default=None)
"""Collects the HTTP errors of this call, for instance `400 Bad Request: no such project`, which mcp reports without
details; or `NOT_SENT` and why. mcp runs a request's POST in the context of its caller."""
NOT_SENT = "can't be reached: "


class ToolFilter(Section):
    """Which of a server's tools exist for programs and searches at all."""

    include: tuple[Glob, ...] = ("*",)
    """Globs over the server's own tool names; a tool that matches none does not exist."""
    exclude: tuple[Glob, ...] = ()
    """Globs taken away from what `include` lets in."""

    def selects(self, tool: str) -> bool:
        """True if the tool of this raw name exists for programs."""
        return any(_matches(tool, glob) for glob in self.include) and not any(
            _matches(tool, glob) for glob in self.exclude
        )


def _matches(name: str, glob: str) -> bool:
    """A glob also matches the name that is spelled like it: `get[1]`."""
    return name == glob or fnmatchcase(name, glob)


class ServerCommon(Section):
    """The settings of a server over any transport."""

    protocol: Literal["auto", "legacy"] = "auto"
    """`legacy` keeps to the initialize handshake; `auto` tries the newer one first and remembers what works."""
    enabled: bool = True
    """`false`: the server is listed as disabled, and nothing of it is started."""
    per_principal: bool | None = None
    """Gives each principal that is served over HTTP a connection (or process) of its own to this server. Default: where
    people sign in to the server (`codemode-server login`); the others are shared, with the credentials that are
    configured here."""
    share: Literal["person", "folder", "session"] | None = None
    """Who shares a connection: all hosts of a `person`, those of one `folder`, or one `session`. Without `cwd`, a
    process is started in the host's folder, unless it is the `person`'s. Default: `folder` for a process without `cwd`
    that gets a relative path (`.`, `data/x.sqlite`) which does not exist beside the configuration file; `session` for a
    server that asks for the host's roots, where the host has some; else `person`."""
    timeout: Seconds = 60.0
    """Seconds that one call may go without an answer or a progress report; each report starts them anew.
    `limits.upstream_seconds` bounds how long a call may take altogether."""
    concurrent_writes: bool = False
    """`true`: calls that may write overlap, as those that only read do. By default one is sent at a time, over all
    programs, since many servers lose writes that overlap."""
    tools: ToolFilter = ToolFilter()
    """Which of its tools to offer."""
    direct: tuple[Glob, ...] = ()
    """Globs over the server's own tool names: these tools are offered to the host as well, each as a tool of its own,
    named `<server>__<tool>`, for short calls that need no program. `["*"]` is all of them."""
    effects: dict[Glob, RuleEffect] = Field(default={})
    """Effects of tools by glob, where annotations are wrong or missing: `create_*: write`. Globs are over the server's
    own tool names. The first that matches decides."""
    labels: dict[Glob, tuple[Label, ...]] = Field(default={})
    """Labels of tools by glob, in place of those that are guessed: `private`, `untrusted`, `public-sink`, or your own.
    They say what data a tool reads and where it sends data, for `permissions.flows`. Globs are over the server's own
    tool names (a resource: `resources/<name or URI>`, a prompt: `prompts/<name>`). The first that matches decides; `[]`
    is no label."""
    description: str | None = Field(default=None, max_length=500)
    """One line for the model on what the server is for; default: what the server says of itself."""
    elicitation: Literal["forward", "decline"] = "forward"
    """Handling of the server's requests for user input during a call. `forward`: the host shows the question, with the
    server's name, if it can; `decline`: it is declined. The model can never answer it."""
    sampling: Literal["forward", "refuse"] = "forward"
    """Handling of the server's requests for a language model's answer during a call. `forward`: the host's model
    answers, if the host supports that and the user agrees; `refuse`: nobody."""
    roots: Literal["forward", "none"] | tuple[str, ...] = "forward"
    """Which folders the server learns of when it asks for the user's. `forward`: those that the host tells, `none`: no
    folder; or a list of paths."""

    @property
    def may_have_direct_tools(self) -> bool:
        """True if some of its tools can be offered to the host."""
        return self.enabled and bool(self.direct)

    def is_direct(self, tool: str) -> bool:
        """True if the tool of this raw name is offered to the host."""
        return any(_matches(tool, glob) for glob in self.direct)

    def effect_of(self, tool: str) -> RuleEffect | None:
        """The effect of the tool of this raw name, where the settings say it."""
        return next((effect for glob, effect in self.effects.items() if _matches(tool, glob)), None)

    def answered_features(self, host: frozenset[Feature]) -> frozenset[Feature]:
        """Features answered to the server during a call of a host with these features."""
        features: set[Feature] = set()
        if self.elicitation == "forward":
            features |= host & {Feature.ELICITATION, Feature.URL}
        if self.sampling == "forward" and Feature.SAMPLING in host:
            features.add(Feature.SAMPLING)
        if not isinstance(self.roots, str) or (self.roots == "forward" and Feature.ROOTS in host):
            features.add(Feature.ROOTS)
        return frozenset(features)

    @model_validator(mode="after")
    def _exactly_one_transport(self) -> Self:
        chosen = [spec for spec in transports() if getattr(self, spec.selector) is not None]
        if len(chosen) != 1:
            *others, last = [f"`{spec.selector}` ({spec.meaning})" for spec in transports() if not spec.is_own]
            raise ValueError(f"give either {', '.join(others)} or {last}")
        for spec in transports():
            if spec is chosen[0]:
                continue
            for name in spec.settings_model.model_fields:
                if name in self.model_fields_set and getattr(self, name):
                    raise ProblemWithin(f"has no meaning beside `{chosen[0].selector}`", name)
        beside = next((name for name in ("cwd", "url") if getattr(self, name, None) is not None), None)
        if self.share == "folder" and beside is not None:
            raise ProblemWithin(f"`folder` has no meaning beside `{beside}`", "share")
        return self


if TYPE_CHECKING:

    class ServerSettings(StdioSettings, HttpSettings, ServerCommon):
        """For the type checker, with the transports that files of hosts know."""


class Transport:
    """One connection to one upstream. `open` is called once."""

    def open(self) -> AbstractAsyncContextManager[Channel]:
        """The channel of a session, until it is left."""
        raise NotImplementedError

    def why_ended(self) -> str | None:
        """Why the connection ended; None if we ended it, or if the errors say it."""
        return None

    def why_unanswered(self) -> str:
        """Behavior of the upstream in place of an answer to the handshake, as clauses for a message; empty if
        unknown."""
        return ""

    def last_words(self) -> str:
        """Last output of the upstream, for the end of a message; empty if unknown."""
        return ""

    def why_not_connected(self, cause: BaseException, refused: list[str]) -> str | None:
        """Explains an error of `open` or of the handshake, unmasked; None if it explains itself. `refused` are the
        notes in `refusals`."""
        return None


Settings = TypeVar("Settings", bound=Section)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSpec(Generic[Settings]):
    """One way to reach an upstream."""

    selector: str
    """The setting of a server that chooses it."""
    meaning: str
    """Description of that setting, for messages."""
    settings_model: type[Settings]
    """Its settings; they are keys of a server beside the common ones. The default of the selector is None."""
    connect: Callable[[Settings, ConnectionDeps], Transport]
    identity: Callable[[Settings], list[Any]]
    """Data that a stored list of tools depends on, as JSON; holds no secret."""
    starts_process: bool = False
    is_own: bool = False
    """True if the server is part of the product; it is not named where a server lacks its transport."""


@cache
def transports() -> tuple[TransportSpec[Any], ...]:
    """Every transport, those that start a process first."""
    names = [module.name for module in iter_modules(package.__path__)]
    modules = [import_module(f"{package.__name__}.{name}") for name in names if name[0] != "_" and name != "registry"]
    specs: list[TransportSpec[Any]] = [module.TRANSPORT for module in modules]
    return tuple(sorted(specs, key=lambda spec: not spec.starts_process))


def transport_of(settings: ServerSettings) -> TransportSpec[Any]:
    return next(spec for spec in transports() if getattr(settings, spec.selector) is not None)


def settings_model() -> type[ServerCommon]:
    """The settings of a server, with those of every transport."""
    models = [spec.settings_model for spec in transports()]
    documentation = "One upstream MCP server: either `command` (a process over stdio) or `url` (over HTTP)."
    return create_model("ServerSettings", __base__=(ServerCommon, *reversed(models)), __doc__=documentation)
