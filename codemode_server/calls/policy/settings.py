"""The section `permissions` of `upstream.yaml`: rules, presets, and the limits of rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from codemode_server.domain.principals import checked_name
from codemode_server.support.setting_types import Glob, NamedServer, ProblemWithin, RuleEffect, Section

Answer = Literal["allow", "deny", "ask"]
Preset = Literal["read-only", "careful", "trusted"]
_ANSWERS = ("allow", "deny", "ask")
_SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3_600.0, "day": 86_400.0, "execution": None}


@dataclass(frozen=True, slots=True)
class RuleLimit:
    """How many calls a rule lets through."""

    calls: int
    seconds: float | None
    """Within this time; None: within one execution."""

    @classmethod
    def parse(cls, text: str) -> RuleLimit:
        """Read `10/minute`. Raises `ValueError`."""
        found = re.fullmatch(r"([1-9][0-9]{0,4})/([a-z]+)", text)
        if found is None or found[2] not in _SECONDS:
            raise ValueError(f"is not of the form `10/minute`; the times are {', '.join(_SECONDS)}")
        return cls(int(found[1]), _SECONDS[found[2]])


GROUP = "group:"
"""Prefix of a group where principals are named."""


def _principal_or_group(text: str) -> str:
    checked_name(text.removeprefix(GROUP))
    return text


class PermissionRule(Section):
    """One rule, with exactly one of `allow`, `deny`, `ask`, each a glob `server/tool` (or `server`, for all its tools).
    It matches calls that fit everything that it says."""

    allow: Glob | None = None
    """Calls that match are allowed."""
    deny: Glob | None = None
    """Calls that match are refused."""
    ask: Glob | None = None
    """Calls that match need a person's approval."""
    effect: RuleEffect | None = None
    """Only tools with this effect, by their annotations or `servers.<name>.effects`; a tool that states none counts as
    `write`. `write` in a rule that denies or asks also means tools that destroy, in one that allows it does not."""
    when: str | None = Field(default=None, max_length=2_000)
    """Only calls for whose arguments this expression is true: CEL over `args`, as `args.owner == "acme"`. If it can't
    be evaluated (a field is missing, a type does not fit, the arguments are too large), a rule that allows does not
    match, and one that denies or asks does."""
    limit: str | None = Field(default=None, max_length=40)
    """How many calls the rule lets through, for each principal: `10/minute`, `5/hour`, `100/execution` (one program).
    Further calls that match are denied. Denied calls don't count; one that a person is asked about does until then."""
    principals: tuple[Annotated[str, AfterValidator(_principal_or_group)], ...] | None = Field(
        default=None, min_length=1, max_length=1_000
    )
    """Only calls of these principals, or of those in a group, as `[alice, group:ops]`; default: of all."""
    reason: str | None = Field(default=None, max_length=300)
    """Part of the error that the program gets when the rule refuses a call."""

    @field_validator(*_ANSWERS)
    @classmethod
    def _glob_is_whole(cls, pattern: str | None) -> str | None:
        if pattern is None:
            return None
        may_have_slashes = re.match(r"[^/]+/(resources|prompts)/.", pattern) is not None  # as URIs have
        if not may_have_slashes and (pattern.startswith("/") or pattern.endswith("/") or pattern.count("/") > 1):
            raise ValueError("is not of the form `server/tool` or `server`")
        return pattern

    @field_validator("when")
    @classmethod
    def _condition_is_sound(cls, text: str | None) -> str | None:
        if text is not None:
            from codemode_server.calls.policy.conditions import Condition

            Condition(text)
        return text

    @field_validator("limit")
    @classmethod
    def _limit_is_sound(cls, text: str | None) -> str | None:
        if text is not None:
            RuleLimit.parse(text)
        return text

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(getattr(self, name) is not None for name in _ANSWERS) != 1:
            raise ValueError("give exactly one of `allow`, `deny`, `ask`")
        if self.limit is not None and self.answer == "deny":
            raise ProblemWithin("has no meaning in a rule that denies", "limit")
        return self

    @property
    def globs(self) -> tuple[str, str]:
        """The globs over the names of servers and of tools."""
        server, _, tool = self.pattern.partition("/")
        return server, tool or "*"

    @property
    def pattern(self) -> str:
        """`server/tool`, or `server`."""
        return self.allow or self.deny or self.ask or ""

    @property
    def answer(self) -> Answer:
        """Also the key under which the file has the pattern."""
        return "allow" if self.allow else "deny" if self.deny else "ask"

    @property
    def text(self) -> str:
        """The rule on one line, without its reason."""
        return self._text(self.limit)

    @property
    def counted_as(self) -> str:
        """The same without the number of its limit, after whose edit the calls so far still count."""
        return self._text(self.limit and self.limit.partition("/")[2])

    def _text(self, limit: str | None) -> str:
        more = (
            ("effect", self.effect),
            ("when", self.when),
            ("limit", limit),
            ("principals", f"[{', '.join(self.principals)}]" if self.principals else None),
        )
        return ", ".join([f"{self.answer}: {self.pattern}", *(f"{name}: {value}" for name, value in more if value)])


class FlowRule(Section):
    """One flow of data that is forbidden. A pattern is a glob `server` or `server/tool`, or a label."""

    source: Glob = Field(alias="from")
    """Data that the session has read. A server without a tool means its data in other servers."""
    to: Glob
    """Tools that may not be called then. Reading a resource counts as `server/read_resource`."""
    decision: Literal["deny", "ask"] = "deny"
    """`ask`: a person may approve the call."""
    reason: str | None = Field(default=None, max_length=300)
    """Part of the error that the program gets, and of the question to the person."""

    @field_validator("source", "to")
    @classmethod
    def _pattern_is_whole(cls, pattern: str) -> str:
        if pattern.startswith("/") or pattern.endswith("/") or pattern.count("/") > 1:
            raise ValueError("is not of the form `server/tool`, `server` or a label")
        return pattern


class FlowSettings(Section):
    """Which data may go where. A session has read the answers of its calls, and of those that wrote to /workspace."""

    public_sinks: Answer | None = None
    """Decision for calls of tools with the label `public-sink` in a session that has read `private` and `untrusted`
    data. Default: `ask` with the presets `careful` and `read-only`, else `allow`."""
    rules: tuple[FlowRule, ...] = ()
    """Further flows that are forbidden, also where a rule of `permissions.rules` allows the call. The strictest that
    matches decides."""


class PermissionSettings(Section):
    """Permissions of programs. The first rule that matches decides; the model cannot change it."""

    preset: Preset | None = None
    """Decision for calls that no rule matches, in place of `default`. `read-only`: tools that read are allowed, others
    are denied; `careful`: tools that read are allowed, others ask; `trusted`: all are allowed."""
    default: Answer = "allow"
    """Decision for calls that no rule matches."""
    rules: tuple[PermissionRule, ...] = ()
    """Checked in order. A pattern may use the server's names or the Python names. Reading a resource counts as a call
    of `server/resources/<name or URI>`, of a template also by the template's name, and of `server/read_resource`, which
    means all of them; getting a prompt, which a person chooses in the host, of `server/prompts/<name>`."""
    flows: FlowSettings = FlowSettings()
    changed_tools: Literal["hide", "allow"] | None = None
    """Tools whose name, description or schema changed since they were first listed or accepted. `hide`: the model does
    not see the new definition, and calls are refused, until `codemode-server tools review` has shown and accepted the
    change. Default: `hide`; `allow` where the permissions restrict nothing."""
    new_tools: Literal["allow", "hide"] = "allow"
    """Tools that a known server lists for the first time; with `allow` the rules decide."""

    def named_servers(self) -> Iterator[NamedServer]:
        for index, rule in enumerate(self.rules):
            yield NamedServer(("rules", index, rule.answer), rule.globs[0])
        for index, flow in enumerate(self.flows.rules):
            for key, pattern in (("from", flow.source), ("to", flow.to)):
                server, slash, _ = pattern.partition("/")
                yield NamedServer(("flows", "rules", index, key), server, may_be_label=not slash)

    @property
    def public_sinks(self) -> Answer:
        """`flows.public_sinks`, with its default."""
        return self.flows.public_sinks or ("ask" if self.preset in ("careful", "read-only") else "allow")

    @property
    def restricts(self) -> bool:
        """True if the person has restricted anything."""
        return bool(self.rules or self.flows.rules) or self.preset not in (None, "trusted") or self.default != "allow"

    @property
    def for_changed_tools(self) -> Literal["hide", "allow"]:
        """`changed_tools`, or its default."""
        return self.changed_tools or ("hide" if self.restricts else "allow")

    @model_validator(mode="after")
    def _preset_or_default(self) -> Self:
        if self.preset is not None and "default" in self.model_fields_set:
            raise ProblemWithin("can't stand beside `default`: both decide what no rule matches", "preset")
        return self
