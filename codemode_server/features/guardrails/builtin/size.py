"""The guardrail `size`: bounds what one call sends, what one answer brings, and how long a program is."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from codemode_server.features.guardrails.guardrail import (
    Block,
    CallVerdict,
    GuardedCall,
    GuardedProgram,
    GuardedResult,
    Guardrail,
    Pass,
    ResultVerdict,
)
from codemode_server.support.json_values import size_as_json, values_in

_Count = Annotated[int, Field(ge=1, strict=True)]


class SizeSettings(BaseModel):
    """The settings of `size`. A bound that is absent is none; `limits` hold in any case."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    program_characters: _Count | None = None
    argument_bytes: _Count | None = None
    """Maximum size of all arguments of a call, as JSON."""
    text_characters: _Count | None = None
    """Maximum length of each text in the arguments."""
    items: _Count | None = None
    """Maximum length of each list and object in the arguments: the recipients of one message, the rows of one
    insertion."""
    result_bytes: _Count | None = None
    """Maximum size of the answer to one call, as JSON. The value that a program returns is not counted."""


class SizeGuardrail(Guardrail):
    """Blocks what is too large."""

    Settings = SizeSettings
    needs_thread: ClassVar[bool] = False

    def before_program(self, program: GuardedProgram) -> CallVerdict:
        bound: int | None = self.settings.program_characters
        if bound is not None and len(program.code) > bound:
            return Block(f"the program has {len(program.code):,} characters, and at most {bound:,} are allowed")
        return Pass()

    def before_call(self, call: GuardedCall) -> CallVerdict:
        problem = _too_long(call.arguments, self.settings.text_characters, self.settings.items)
        bound: int | None = self.settings.argument_bytes
        if not problem and bound is not None and (size := size_as_json(call.arguments)) > bound:
            problem = f"the arguments have {size:,} bytes, and at most {bound:,} are allowed"
        return Block(problem) if problem else Pass()

    def after_call(self, call: GuardedCall, result: GuardedResult) -> ResultVerdict:
        bound: int | None = self.settings.result_bytes
        if bound is not None and (size := size_as_json(result.value)) > bound:
            return Block(f"the answer has {size:,} bytes, and at most {bound:,} are allowed; ask for less")
        return Pass()


def _too_long(value: Any, characters: int | None, items: int | None) -> str:
    for item in values_in(value, with_keys=True):
        if isinstance(item, str) and characters is not None and len(item) > characters:
            return f"a text has {len(item):,} characters, and at most {characters:,} are allowed"
        if isinstance(item, dict | list) and items is not None and len(item) > items:
            return f"a list or object has {len(item):,} items, and at most {items:,} are allowed"
    return ""
