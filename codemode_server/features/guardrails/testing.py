"""Test helpers for a guardrail: things to show it, and its verdict as the product would take it."""

from __future__ import annotations

from typing import Any

from codemode_server.domain.tools import Effect
from codemode_server.features.guardrails import (
    Block,
    GuardedCall,
    GuardedProgram,
    GuardedResult,
    Guardrail,
    Pass,
    ProgramResult,
)
from codemode_server.features.guardrails.asking import AskedGuardrail
from codemode_server.features.guardrails.chain import Finding, GuardrailChain
from codemode_server.features.guardrails.guardrail import Ask, Change


def guarded_call(tool: str, effect: Effect = Effect.UNKNOWN, **arguments: Any) -> GuardedCall:
    """A call of `server/tool` with these arguments."""
    server, _, name = tool.partition("/")
    return GuardedCall(server, name, arguments, effect)


class GuardrailProbe:
    """Asks one guardrail as the product does: within its time, with a `Block` if it fails or returns no verdict."""

    def __init__(self, guardrail: Guardrail, *, timeout_s: float = 5.0, tools: tuple[str, ...] = ()) -> None:
        self._chain = GuardrailChain([AskedGuardrail(type(guardrail).__name__, guardrail, timeout_s, tools)])

    async def program(self, code: str) -> Pass | Change | Ask | Block:
        """The verdict on a program."""
        return _verdict(await self._chain.before_program(GuardedProgram(code)))

    async def call(self, call: GuardedCall) -> Pass | Change | Ask | Block:
        """The verdict on a call before it is sent."""
        return _verdict(await self._chain.before_call(call))

    async def answer(self, call: GuardedCall, value: Any) -> Pass | Change | Ask | Block:
        """The verdict on the answer to a call."""
        return _verdict(await self._chain.after_call(call, GuardedResult(value)))

    async def result(self, value: Any = None, *, stdout: str = "", stderr: str = "") -> Pass | Change | Ask | Block:
        """The verdict on what a program gives to the model."""
        return _verdict(await self._chain.on_result(GuardedProgram(""), ProgramResult(value, stdout, stderr)))


def _verdict(found: Finding[Any]) -> Pass | Change | Ask | Block:
    if found.decision is not None:
        reason = found.decision.reason
        return Ask(reason) if found.decision.kind == "ask" else Block(reason)
    return Change(found.value, "; ".join(found.changes)) if found.changes else Pass()
