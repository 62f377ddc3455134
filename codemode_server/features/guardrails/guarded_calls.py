"""Passes calls and their answers through the guardrails, for the pipeline and the policy.

The policy decides twice on a call that guardrails look at: before them, so that they see no call that is denied
anyway, and on the arguments that they leave, which are those that are sent. What the first decision or a guardrail says
restricts the second one, so nothing that a guardrail does can loosen a rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.policy.names import Spellings, fits
from codemode_server.calls.policy.policy import Policy, most_restrictive
from codemode_server.calls.targets import CallTarget, ResourceTarget, title_of
from codemode_server.domain.calls import Ask, Decision, Deny
from codemode_server.domain.errors import ResultWithheld, ToolFailed
from codemode_server.features.guardrails.chain import Finding, GuardrailChain
from codemode_server.features.guardrails.guardrail import GuardedCall, GuardedResult
from codemode_server.sandbox.contract import Reply

_MAX_MESSAGES = 20


@dataclass(frozen=True, slots=True)
class GuardedArguments:
    """Arguments of a call after the guardrails."""

    arguments: dict[str, Any]
    restriction: Deny | Ask | None = None
    """Restriction that holds whatever the policy decides on these arguments."""
    changes: tuple[str, ...] = ()
    """Who changed them and why; part of the reason of each decision."""
    values: dict[str, Any] | None = None
    """The arguments with values in place of privacy tokens, if they have any: what would be sent is decided too."""


class CallGuard:
    """Asks the guardrails and the policy about calls."""

    def __init__(self, chain: GuardrailChain, policy: Policy) -> None:
        self._chain = chain
        self._policy = policy

    async def before(self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any]) -> GuardedArguments:
        """The arguments to decide on and send."""
        asked = calls.question
        if not self._chain.looks_at("before_call"):
            return GuardedArguments(arguments, asked)
        first = self._policy.decide(calls, target, arguments, is_counted=True)
        if isinstance(first, Deny):
            return GuardedArguments(arguments, first)
        found = await self._chain.before_call(_guarded_call(calls, target, arguments))
        if isinstance(found.decision, Deny):
            return GuardedArguments(arguments, found.decision, found.changes)
        if not found.changes:
            return GuardedArguments(arguments, _all_of(asked, found.decision))
        if isinstance(target, ResourceTarget):
            return GuardedArguments(arguments, Deny(f"the reading of a resource can't be {found.changes[0]}"))
        _note(calls, f"{title_of(target)}: the arguments were {'; '.join(found.changes)}")
        questions = _all_of(asked, first if isinstance(first, Ask) else None, found.decision)
        return GuardedArguments(found.value, questions, found.changes)

    async def with_values(
        self, calls: ExecutionCalls, target: CallTarget, guarded: GuardedArguments, values: dict[str, Any]
    ) -> GuardedArguments:
        """The same with the values that its privacy tokens stand for, at which the guardrails have looked as well."""
        guarded = replace(guarded, values=values)
        if not self._chain.looks_at("before_call") or isinstance(guarded.restriction, Deny):
            return guarded
        found = await self._chain.before_call(_guarded_call(calls, target, values))
        # Their reasons may show values in any form, and the model reads them; the person may see them.
        who = ", ".join(f"guardrail {name!r}" for name in found.names)
        if isinstance(found.decision, Deny):
            return replace(
                guarded, restriction=Deny(f"{who} refuses what the privacy tokens in the arguments stand for")
            )
        if found.changes:
            return replace(guarded, restriction=Deny("a guardrail would change what privacy tokens stand for"))
        asked = found.decision
        if asked is not None:
            asked = Ask(f"{who} asks about what the privacy tokens stand for", (asked.reason, *asked.details))
        return replace(guarded, restriction=_all_of(guarded.restriction, asked))

    def decide(
        self,
        calls: ExecutionCalls,
        target: CallTarget,
        guarded: GuardedArguments,
        *,
        also: Deny | Ask | None = None,
        is_counted: bool = False,
        is_made: bool = False,
        is_captured: bool = False,
    ) -> Decision:
        """The decision of the policy on what would be sent, under what the guardrails found and `also`; see
        `Policy.decide`."""
        restrictions: list[Decision] = [it for it in (guarded.restriction, also) if it is not None]
        decide = partial(self._policy.decide, calls, target, is_made=is_made, is_captured=is_captured)
        if guarded.values is not None:
            restrictions.append(decide(guarded.values, is_counted=True))
        decision = decide(
            guarded.arguments,
            is_counted=is_counted,
            also=most_restrictive(restrictions) if restrictions else None,
        )
        if guarded.changes:  # the person and the records are to see them
            return replace(decision, reason="; ".join((decision.reason, *guarded.changes)))
        return decision

    async def after(
        self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any], reply: Reply
    ) -> tuple[Reply, tuple[str, ...]]:
        """The result for the program after the guardrails, and who changed it. Raises `ResultWithheld` if a guardrail
        blocks it."""
        if not self._chain.looks_at("after_call"):
            return reply, ()
        form: Literal["mcp", "blocks", "value"] = "blocks" if reply.encoding == "blocks" else "value"
        result = GuardedResult(reply.value, "mcp" if target.is_raw else form)
        found = await self._passed(calls, target, arguments, result, "result", dict if target.is_raw else object)
        return replace(reply, value=found.value), tuple(f"its result was {it}" for it in found.changes)

    async def after_failure(
        self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any], error: ToolFailed
    ) -> ToolFailed:
        """The error that the program gets for the one with which the upstream answered. A `ResultWithheld` has nothing
        of an upstream for guardrails."""
        if not self._chain.looks_at("after_call") or isinstance(error, ResultWithheld):
            return error
        try:
            found = await self._passed(calls, target, arguments, GuardedResult(str(error), "error"), "error", str)
        except ResultWithheld as withheld:
            return withheld
        return type(error)(found.value)

    async def _passed(
        self,
        calls: ExecutionCalls,
        target: CallTarget,
        arguments: dict[str, Any],
        result: GuardedResult,
        what: str,
        kind: type,
    ) -> Finding[Any]:
        """Passes a result through the guardrails. Raises `ResultWithheld` if one blocks it or makes it another kind of
        value."""
        found = await self._chain.after_call(_guarded_call(calls, target, arguments), result)
        title = title_of(target)
        if isinstance(found.decision, Deny):
            raise ResultWithheld(f"{title} was called, and its {what} is withheld: {found.decision.reason}")
        if not isinstance(found.value, kind):
            raise ResultWithheld(f"{title} was called, and its {what} is withheld: a guardrail made it unreadable")
        if found.changes:
            _note(calls, f"{title}: the {what} was {'; '.join(found.changes)}")
        return found


def _all_of(*questions: Deny | Ask | None) -> Ask | None:
    asked = [it for it in questions if it is not None]
    found = most_restrictive(asked) if asked else None
    return found if isinstance(found, Ask) else None


def _note(calls: ExecutionCalls, line: str) -> None:
    if len(calls.messages) < _MAX_MESSAGES and line not in calls.messages:
        calls.messages.append(line)


def _guarded_call(calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any]) -> GuardedCall:
    server = Spellings.of_server(target.server)

    def matches(glob: str) -> bool:
        server_glob, _, tool_glob = glob.partition("/")
        return fits(server, server_glob, is_wide=True) and fits(target.spellings, tool_glob or "*", is_wide=True)

    return GuardedCall(
        target.server.raw_name,
        target.raw_name,
        target.sent(arguments),
        target.effect,
        calls.context.principal.principal_id,
        calls.execution_id,
        matches,
    )
