"""An approval: what a person is asked about one call, and what the person answers. No I/O."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NewType

from codemode_server.domain.calls import CallKey
from codemode_server.domain.ids import ExecutionId, JsonValue
from codemode_server.domain.principals import Principal
from codemode_server.domain.privacy_tokens import without_value
from codemode_server.domain.tools import Effect

ApprovalId = NewType("ApprovalId", str)


REFUSED_SECONDS = 86_400.0
"""How long after a question its refusal may be replaced by an approval."""
NOBODY = "timeout"
"""In place of a channel, for a question that nobody answered in time."""


class AnswerScope(StrEnum):
    """An answer holds for …"""

    CALL = "call"  # this call alone
    EXECUTION = "execution"  # calls of this tool in the rest of this program
    SESSION = "session"  # calls of this tool in this session whose arguments fit the pattern
    TOOL = "tool"  # calls of this tool in this session
    READS = "reads"  # every call of the readers, which the configuration says to only read then
    ALWAYS = "always"  # every call that the rule allows, which is written into the configuration
    ARRIVED = "arrived"  # this call, which is not sent, since an earlier run's attempt arrived


FOR_GOOD = (AnswerScope.READS, AnswerScope.ALWAYS)
"""What is written into the configuration."""


@dataclass(frozen=True, slots=True)
class ProgramTexts:
    code: str = ""
    skills: Mapping[str, str] = field(default_factory=dict)
    """The texts of the skills that it has imported, by their files: `skills/triage.py`."""

    @property
    def size(self) -> int:
        return len(self.code) + sum(map(len, self.skills.values()))


_EFFECTS = {
    Effect.READS: "it says that it only reads",
    Effect.WRITES: "it says that it changes data",
    Effect.DESTROYS: "it says that it may destroy data",
    Effect.UNKNOWN: "it may change data",
}


@dataclass(frozen=True, slots=True)
class Question:
    """The question as the person sees it. Secrets are masked and long values cut; none of it is the model's to
    change."""

    server: str
    tool: str
    """Raw names, as the upstream has them."""
    title: str
    """`server.tool`, as programs import it."""
    effect: Effect
    reason: str
    """Why the call needs an approval: the rule that decided."""
    arguments: Mapping[str, JsonValue]
    done: tuple[str, ...] = ()
    """Effects of the program so far, a line for each call that may have changed something."""
    lines: tuple[str, ...] = ()
    """The lines of the program that may make this call, with their numbers."""
    changes: tuple[str, ...] = ()
    """Diff of the tool's definition, or against the plan of a dry run."""
    sources: tuple[str, ...] = ()
    """Labelled tools whose results this session has read."""
    pattern: Mapping[str, JsonValue] | None = None
    """The arguments that an answer for the session fixes; None if there is no such answer."""
    has_session: bool = False
    """True if more programs of this session may follow."""
    readers: tuple[str, ...] = ()
    """Tools of this server, this one among them, that seem to only read, and ask since the server does not say so."""
    rule: str | None = None
    """The rule that the answer `always` would write, as YAML; None if there is no such answer."""
    is_unanswered: bool = False
    """True if an earlier run sent the call and got no answer."""
    reads: tuple[str, ...] = ()
    """Calls of the same server that may show whether it arrived."""
    result: str = ""
    """The result that the program needs if it arrived, and why the last one was not accepted; empty if any will do."""

    @property
    def said_effect(self) -> str:
        """What the tool's server says of its effect."""
        return _EFFECTS[self.effect]

    @property
    def scopes(self) -> tuple[AnswerScope, ...]:
        if self.is_unanswered:
            return AnswerScope.ARRIVED, AnswerScope.CALL
        offered = (
            (AnswerScope.SESSION, bool(self.pattern)),
            (AnswerScope.TOOL, self.has_session),
            (AnswerScope.READS, bool(self.readers)),
            (AnswerScope.ALWAYS, self.rule is not None),
        )
        return AnswerScope.CALL, AnswerScope.EXECUTION, *(scope for scope, is_offered in offered if is_offered)

    @property
    def for_good(self) -> str:
        """The command after which this call, or all that only read, are not asked about; empty if there is none."""
        if self.readers:
            return f"codemode-server effects accept {shlex.quote(self.server)}"
        return f"codemode-server permissions allow {shlex.quote(f'{self.server}/{self.tool}')}" if self.rule else ""

    def without_configuration(self) -> Question:
        """The question without the answers that write into the configuration."""
        return replace(self, rule=None, readers=())

    def without_values(self, tokens: Collection[str] | None = None) -> Question:
        """The question without what these privacy tokens stand for, or all of them."""
        is_meant = tokens.__contains__ if tokens is not None else bool
        shown = (without_value(it) if is_meant(it.partition(" ")[0]) else it for it in self.changes)
        return replace(self, changes=tuple(shown))


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """The person's answer, or that the time for an answer has passed."""

    is_approved: bool
    scope: AnswerScope = AnswerScope.CALL
    reason: str = ""
    """For a refusal: the person's own words, which the program receives."""
    channel: str = ""
    """Where the answer came from: `elicitation`, `page`, `command` or `timeout`."""
    answered_at: float = 0.0
    result: JsonValue = None

    @property
    def is_refusal(self) -> bool:
        return not self.is_approved and self.channel != NOBODY


def result_of(text: str) -> JsonValue:
    """The result that a person writes: JSON, or else text; None for nothing."""
    try:
        result: JsonValue = json.loads(text) if text.strip() else None
    except (ValueError, RecursionError):
        return text
    return result


@dataclass(frozen=True, slots=True)
class Approval:
    """One question with its call and, once there is one, its answer. Times are seconds since 1970."""

    approval_id: ApprovalId
    execution_id: ExecutionId
    principal: Principal
    session_id: str
    key: CallKey
    """Key of the call; the same when the program runs again, so it is not asked twice."""
    question: Question
    asked_at: float
    expires_at: float
    definition: str = ""
    """Digest of the tool's definition when the question was made; an answer holds for this definition only."""
    answer: ApprovalAnswer | None = None

    def repeats(self, earlier: Approval) -> bool:
        """True if a program that runs again repeats the question `earlier`."""
        return (
            (self.execution_id, self.key, self.principal) == (earlier.execution_id, earlier.key, earlier.principal)
            and (self.question.reason, self.definition) == (earlier.question.reason, earlier.definition)
            and (earlier.is_open(self.asked_at) if earlier.answer is None else earlier.answer.channel != NOBODY)
        )

    def is_open(self, at: float) -> bool:
        """True if it can still be answered at this time."""
        return self.answer is None and at < self.expires_at

    def may_be_approved(self, at: float) -> bool:
        """True if it is open, or if the person refused it lately and may allow the call after all."""
        if (answer := self.answer) is None:
            return self.is_open(at)
        return answer.is_refusal and at < self.asked_at + REFUSED_SECONDS
