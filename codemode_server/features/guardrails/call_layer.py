"""Passes calls and their answers through the guardrails.

Guardrails see no call that is denied anyway. What they find restricts the decision on the arguments that they leave,
which are those that are sent, so nothing that a guardrail does can loosen a rule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from codemode_server.calls.decisions import Decisions
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.kernel import Call, Layer, Next
from codemode_server.calls.policy.names import Spellings, fits
from codemode_server.calls.policy.policy import joined
from codemode_server.calls.targets import ResourceTarget, title_of
from codemode_server.domain.calls import Ask, Capture, Deny
from codemode_server.domain.errors import ResultWithheld, ToolFailed
from codemode_server.features.guardrails.chain import Finding, GuardrailChain
from codemode_server.features.guardrails.guardrail import GuardedCall, GuardedResult
from codemode_server.sandbox.contract import Reply
from codemode_server.support.off_loop import is_large

_MAX_MESSAGES = 20


class Guardrails(Layer):
    """Looks at the arguments before the key is made of them, and at the result as the program would get it."""

    def __init__(self, chain: GuardrailChain, decisions: Decisions) -> None:
        self._chain = chain
        self._decisions = decisions

    def is_for(self, calls: ExecutionCalls) -> bool:
        return bool(self._chain.guardrails)

    async def prepare(self, call: Call) -> None:
        if not self._chain.looks_at("before_call"):
            return
        await self._decisions.decide(call)
        if isinstance(call.decision, Deny):
            _restrict(call, call.decision)  # whatever the rules are by then: no guardrail has seen it
            return
        found = await self._chain.before_call(_guarded_call(call, call.arguments))
        call.changes = found.changes
        if found.changes and isinstance(call.target, ResourceTarget) and not isinstance(found.decision, Deny):
            _restrict(call, Deny(f"the reading of a resource can't be {found.changes[0]}"))
            return
        _restrict(call, found.decision)
        if found.changes and not isinstance(found.decision, Deny):
            _note(call, f"{title_of(call.target)}: the arguments were {'; '.join(found.changes)}")
            _restrict(call, call.decision if isinstance(call.decision, Ask) else None)
            call.arguments, call.is_large = found.value, is_large(found.value)

    async def restrict(self, call: Call) -> Deny | Ask | None:
        found: list[Deny | Ask] = [
            *([call.calls.question] if call.calls.question else []),
            *call.own.get(Guardrails, ()),
        ]
        denied = next((it for it in found if isinstance(it, Deny)), None)
        return denied or (joined([it for it in found if isinstance(it, Ask)]) if found else None)

    async def around(self, call: Call, proceed: Next) -> Reply:
        try:
            reply = await proceed(call)
        except ResultWithheld:  # it has nothing of an upstream
            raise
        except ToolFailed as error:
            if not self._chain.looks_at("after_call"):
                raise
            text = call.calls.caller.redactor.text(str(error))
            found = await self._passed(call, GuardedResult(text, "error"), "error", str)
            raise type(error)(found.value) from error
        if isinstance(call.decision, Capture) or not self._chain.looks_at("after_call"):
            return reply  # no guardrail looks at what no server has sent
        form: Literal["mcp", "blocks", "value"] = "blocks" if reply.encoding == "blocks" else "value"
        result = GuardedResult(reply.value, "mcp" if call.target.is_raw else form)
        found = await self._passed(call, result, "result", dict if call.target.is_raw else object)
        if found.changes:
            changes = (f"its result was {it}" for it in found.changes)
            call.decision = replace(call.decision, reason="; ".join((call.decision.reason, *changes)))
        return replace(reply, value=found.value)

    async def _passed(self, call: Call, result: GuardedResult, what: str, kind: type) -> Finding[Any]:
        """Passes a result through the guardrails. Raises `ResultWithheld` if one blocks it or makes it another kind of
        value."""
        found = await self._chain.after_call(_guarded_call(call, call.arguments), result)
        title = title_of(call.target)
        if isinstance(found.decision, Deny):
            raise ResultWithheld(f"{title} was called, and its {what} is withheld: {found.decision.reason}")
        if not isinstance(found.value, kind):
            raise ResultWithheld(f"{title} was called, and its {what} is withheld: a guardrail made it unreadable")
        if found.changes:
            _note(call, f"{title}: the {what} was {'; '.join(found.changes)}")
        return found


class GuardedValues(Layer):
    """Looks at the values that would be sent in place of privacy tokens."""

    def __init__(self, chain: GuardrailChain) -> None:
        self._chain = chain

    def is_for(self, calls: ExecutionCalls) -> bool:
        return self._chain.looks_at("before_call")

    async def prepare(self, call: Call) -> None:
        is_denied = any(isinstance(it, Deny) for it in (call.decision, *call.own.get(Guardrails, ())))
        if call.values is None or is_denied:
            return
        found = await self._chain.before_call(_guarded_call(call, call.values.arguments))
        # Their reasons may show values in any form, and the model reads them; the person may see them.
        who = ", ".join(f"guardrail {name!r}" for name in found.names)
        if isinstance(found.decision, Deny):
            _restrict(call, Deny(f"{who} refuses what the privacy tokens in the arguments stand for"))
        elif found.changes:
            _restrict(call, Deny("a guardrail would change what privacy tokens stand for"))
        elif (asked := found.decision) is not None:
            question = f"{who} asks about what the privacy tokens stand for"
            _restrict(call, Ask(question, (asked.reason, *asked.details)))


def _restrict(call: Call, restriction: Deny | Ask | None) -> None:
    """Let the call be restricted so, whatever the rules decide on its arguments."""
    if restriction is not None:
        call.own[Guardrails] = (*call.own.get(Guardrails, ()), restriction)


def _note(call: Call, line: str) -> None:
    messages = call.calls.messages
    if len(messages) < _MAX_MESSAGES and line not in messages:
        messages.append(line)


def _guarded_call(call: Call, arguments: dict[str, Any]) -> GuardedCall:
    target, calls = call.target, call.calls
    server = Spellings.of_server(target.server)

    def matches(glob: str) -> bool:
        server_glob, _, tool_glob = glob.partition("/")
        return fits(server, server_glob, is_wide=True) and fits(target.spellings, tool_glob or "*", is_wide=True)

    return GuardedCall(
        target.server.raw_name,
        target.raw_name,
        target.sent(arguments),
        target.effect,
        calls.caller.principal.principal_id,
        calls.execution_id,
        matches,
    )
