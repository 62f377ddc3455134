"""Passes programs, calls and results through all guardrails, in the order of the configuration.

Each guardrail sees what the ones before it have changed. The first `Block` ends it; questions to the person add up. The
chain decides nothing by itself: what it finds about a call is one more restriction for the policy of the gateway.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from codemode_server.domain.calls import Ask as AskPerson
from codemode_server.domain.calls import Deny
from codemode_server.features.guardrails.asking import AskedGuardrail
from codemode_server.features.guardrails.guardrail import (
    Ask,
    Block,
    Change,
    GuardedCall,
    GuardedProgram,
    GuardedResult,
    ProgramResult,
)
from codemode_server.support.json_values import MAX_VALUES, is_nested_deeper, size_as_json, values_in
from codemode_server.support.off_loop import is_large, run_sized
from codemode_server.support.text import clean_line

logger = logging.getLogger(__name__)

MAX_REASON_CHARACTERS = 300
MAX_CHANGED_BYTES = 16 * 2**20
"""Size of a value that a guardrail puts in place of another, as JSON."""
_MAX_DEPTH = 100

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finding(Generic[T]):
    value: T
    """As they leave it."""
    changes: tuple[str, ...] = ()
    """Who changed it and why, a line each."""
    decision: Deny | AskPerson | None = None
    """The restriction; None if there is none."""
    names: tuple[str, ...] = ()
    """The guardrails that block or ask."""


class GuardrailChain:
    """The guardrails of one product. Holds no state of any call."""

    def __init__(
        self, guardrails: Sequence[AskedGuardrail] = (), masked: Callable[[str, str], str] = lambda text, _: text
    ) -> None:
        """`masked` replaces secrets, and personal data of a principal, in a reason that a guardrail gives it."""
        self.guardrails = tuple(guardrails)
        self._masked = masked
        self._by_method = {
            method: tuple(it for it in self.guardrails if it.looks_at(method))
            for method in ("before_program", "before_call", "after_call", "on_result")
        }

    def looks_at(self, method: str) -> bool:
        """True if any guardrail overrides a method of `Guardrail`."""
        return bool(self._by_method[method])

    async def before_program(self, program: GuardedProgram) -> Finding[str]:
        """The code to check and run."""
        return await self._pass(
            "before_program", program, program.code, lambda code: (replace(program, code=code),), _why_no_code
        )

    async def before_call(self, call: GuardedCall) -> Finding[dict[str, Any]]:
        """The arguments to decide on and send."""
        return await self._pass(
            "before_call",
            call,
            call.arguments,
            lambda arguments: (replace(call, arguments=arguments),),
            _why_no_arguments,
        )

    async def after_call(self, call: GuardedCall, result: GuardedResult) -> Finding[Any]:
        """The value that the program gets."""
        why_not = _why_no_blocks if result.form == "blocks" else _why_no_json
        return await self._pass(
            "after_call", call, result.value, lambda value: (call, replace(result, value=value)), why_not, may_ask=False
        )

    async def on_result(self, program: GuardedProgram, result: ProgramResult) -> Finding[ProgramResult]:
        """The program's result for the model, after the guardrails."""
        return await self._pass(
            "on_result", program, result, lambda found: (program, found), _why_no_result, may_ask=False
        )

    async def _pass(
        self,
        method: str,
        subject: GuardedProgram | GuardedCall,
        value: T,
        arguments_for: Callable[[T], tuple[Any, ...]],
        why_not: Callable[[Any], str],
        *,
        may_ask: bool = True,
    ) -> Finding[T]:
        """`arguments_for` gives the arguments of the method for a value, `why_not` why a value can't take its place."""
        changes: list[str] = []
        questions: list[str] = []
        asking: list[str] = []
        for one in self._by_method[method]:
            if isinstance(subject, GuardedCall) and one.globs and not any(map(subject.matches, one.globs)):
                continue
            verdict = await one.verdict(method, _json_of(value), *arguments_for(value))
            if isinstance(verdict, Change):
                changed = verdict.value
                if problem := await run_sized(is_large(_json_of(changed)), why_not, changed):
                    verdict = _unfit(one, problem)
            elif isinstance(verdict, Ask) and not may_ask:
                verdict = _unfit(one, "it asks about a result, and what has been done can't be approved any more")
            match verdict:
                case Change(value=changed, reason=reason):
                    value = changed
                    changes.append(f"changed by guardrail {one.name!r}: {self._reason(reason, subject)}")
                case Ask(reason=reason):
                    questions.append(f"guardrail {one.name!r} asks: {self._reason(reason, subject)}")
                    asking.append(one.name)
                case Block(reason=reason):
                    denied = Deny(f"guardrail {one.name!r}: {self._reason(reason, subject)}")
                    return Finding(value, tuple(changes), denied, (one.name,))
        question = AskPerson("; ".join(questions)) if questions else None
        return Finding(value, tuple(changes), question, tuple(asking))

    def _reason(self, reason: object, subject: GuardedProgram | GuardedCall) -> str:
        return clean_line(self._masked(str(reason), subject.principal), MAX_REASON_CHARACTERS) or "no reason given"


def _unfit(one: AskedGuardrail, problem: str) -> Block:
    logger.error("guardrail %r: %s, so it blocks", one.name, problem)
    return Block(problem)


def _json_of(value: Any) -> Any:
    return [value.value, value.stdout, value.stderr, value.error] if isinstance(value, ProgramResult) else value


def _why_no_code(value: Any) -> str:
    if not isinstance(value, str):
        return "the changed program is no text"
    return "the changed program is too large" if len(value) > MAX_CHANGED_BYTES else ""


def _why_no_arguments(value: Any) -> str:
    return _why_no_json(value) if isinstance(value, dict) else "the changed arguments are no dict"


def _why_no_blocks(value: Any) -> str:
    is_list = isinstance(value, list) and all(isinstance(it, dict) and isinstance(it.get("type"), str) for it in value)
    return _why_no_json(value) if is_list else "the changed result is no list of blocks, as the one before"


def _why_no_result(value: Any) -> str:
    if not isinstance(value, ProgramResult):
        return "the changed result is no ProgramResult"
    if not all(isinstance(text, str) for text in (value.stdout, value.stderr, value.error)):
        return "the output or the error of the changed result is no text"
    return _why_no_json(_json_of(value))


def _why_no_json(value: Any) -> str:
    """Why a value can't take the place of JSON; empty if it can."""
    if is_nested_deeper(value, _MAX_DEPTH):
        return f"the changed value is nested more than {_MAX_DEPTH} deep"
    for count, item in enumerate(values_in(value, most=MAX_VALUES), start=1):
        if count > MAX_VALUES:
            return "the changed value is too large"
        if isinstance(item, dict) and not all(isinstance(key, str) for key in item):
            return "a key of the changed value is no text"
        if item is not None and not isinstance(item, dict | list | str | bool | int | float):
            return f"the changed value has a {type(item).__name__}, which JSON does not have"
    return "the changed value is too large" if size_as_json(value) > MAX_CHANGED_BYTES else ""
