"""The guardrail `rules`: what has to be true of the arguments of a call, in CEL.

A rule of the permissions says which calls are allowed; a rule here says what every call has to fulfil, whichever rule
of the permissions allows it. All rules that mean a tool are looked at. One that can't be evaluated is not fulfilled.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from codemode_server.conditions import Arguments, Condition, NotEvaluable
from codemode_server.guardrails.guardrail import CallVerdict, GuardedCall, Guardrail
from codemode_server.guardrails.verdicts import Ask, Block, Pass


class BusinessRule(BaseModel):
    """One rule."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: Annotated[str, Field(min_length=1, max_length=200)] = "*"
    """Glob `server/tool`: the calls that it is about."""
    require: Annotated[str, Field(max_length=2_000)]
    """CEL over `args`, as `args.amount <= 1000`."""
    otherwise: Literal["block", "ask"] = "block"
    """Decision on a call for which it is not true."""
    reason: Annotated[str, Field(max_length=300)] = ""

    @field_validator("require")
    @classmethod
    def _condition_is_sound(cls, text: str) -> str:
        Condition(text)
        return text


class RulesSettings(BaseModel):
    """The settings of `rules`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: Annotated[tuple[BusinessRule, ...], Field(min_length=1)]


class RulesGuardrail(Guardrail):
    """Blocks or asks about calls that break a rule."""

    Settings = RulesSettings
    needs_thread: ClassVar[bool] = False

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        rules: tuple[BusinessRule, ...] = settings.rules
        self._rules = [(rule, Condition(rule.require)) for rule in rules]

    def before_call(self, call: GuardedCall) -> CallVerdict:
        arguments = Arguments(call.arguments)
        questions: list[str] = []
        for rule, condition in self._rules:
            if not call.matches(rule.tool):
                continue
            if (why := _why_broken(condition, arguments)) is None:
                continue
            reason = rule.reason or f"requires `{rule.require}`"
            if why:
                reason = f"{reason} (it can't be evaluated: {why})"
            if rule.otherwise == "block":
                return Block(reason)
            questions.append(reason)
        return Ask("; ".join(questions)) if questions else Pass()


def _why_broken(condition: Condition, arguments: Arguments) -> str | None:
    """None if it is fulfilled; else why it can't be evaluated, empty if it is false."""
    try:
        return None if condition.holds(arguments) else ""
    except NotEvaluable as error:
        return str(error)
