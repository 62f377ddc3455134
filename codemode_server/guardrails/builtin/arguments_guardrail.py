"""Base of the guardrails that look for one thing in the arguments of a call."""

from __future__ import annotations

from codemode_server.guardrails.builtin.texts import Unreadable
from codemode_server.guardrails.guardrail import CallVerdict, GuardedCall, Guardrail
from codemode_server.guardrails.verdicts import Ask, Block, Pass


class ArgumentsGuardrail(Guardrail):
    """Blocks or asks about a call in which it finds something, as `action` says; blocks one that it can't read."""

    def before_call(self, call: GuardedCall) -> CallVerdict:
        try:
            reason = self.problem(call)
        except Unreadable as error:
            return Block(str(error))
        if not reason:
            return Pass()
        return Ask(reason) if self.settings.action == "ask" else Block(reason)

    def problem(self, call: GuardedCall) -> str:
        """Problem in the arguments; empty if none.

        Raises:
            Unreadable: they have more in them than is read.
        """
        raise NotImplementedError
