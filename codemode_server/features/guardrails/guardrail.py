"""The base class of guardrails, and what they are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from codemode_server.domain.ids import JsonValue
from codemode_server.domain.tools import Effect


@dataclass(frozen=True, slots=True)
class Pass:
    """The guardrail has nothing against it."""


@dataclass(frozen=True, slots=True)
class Change:
    """It passes with another value. The guardrails after this one, and then the permissions, see the new value."""

    value: Any
    """The whole value in place of the old one, in the same form."""
    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A person has to approve it first."""

    reason: str


@dataclass(frozen=True, slots=True)
class Block:
    """It is refused."""

    reason: str


CallVerdict = Pass | Change | Ask | Block
"""The answer before something happens: a person can still be asked."""
ResultVerdict = Pass | Change | Block
"""The answer about a result. Nobody is asked: what has been done can't be approved afterwards."""


class NoSettings(BaseModel):
    """The settings of a guardrail that has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class GuardedProgram:
    """A program before it is checked and run."""

    code: str
    principal: str = "default"
    execution_id: str = ""


@dataclass(frozen=True, slots=True)
class GuardedCall:
    """One call before it is sent, or after its answer has come."""

    server: str
    tool: str
    """Raw names, as the upstream has them; reading a resource is the tool `resources/read`."""
    arguments: dict[str, JsonValue]
    """Arguments that are sent, by raw names. A guardrail returns a new dict in a `Change`, and leaves this one as it
    is."""
    effect: Effect = Effect.UNKNOWN
    principal: str = "default"
    execution_id: str = ""
    fits: Callable[[str], bool] | None = None
    """Compares with a glob as permission rules do; None compares with the raw names."""

    def matches(self, glob: str) -> bool:
        """True if a glob `server/tool`, or `server`, matches the tool."""
        if self.fits is not None:
            return self.fits(glob)
        server, _, tool = glob.partition("/")
        return fnmatchcase(self.server, server) and fnmatchcase(self.tool, tool or "*")


@dataclass(frozen=True, slots=True)
class GuardedResult:
    """The answer to one call, as the program would get it. Secrets of the configuration are masked."""

    value: JsonValue
    form: Literal["value", "blocks", "mcp", "error"] = "value"
    """`value`: the value itself. `blocks`: a list of texts, values and files. `mcp`: the result as the upstream sent
    it, for a call that the host makes without a program. `error`: the text of the error with which it answered."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Result of a program for the model, without files sent with `codemode.show`."""

    value: JsonValue = None
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    """The message of the exception that ended it."""


class Guardrail:
    """Override the methods for what the guardrail looks at; those that are not overridden are never called.

    A method may be called in several threads at once. One that raises, takes longer than `timeout`, or returns anything
    but a verdict blocks what it was asked about. It has to give the same answer to the same question: a program that is
    resumed passes it again."""

    Settings: ClassVar[type[BaseModel]] = NoSettings
    """The model of `settings` in `upstream.yaml`."""
    needs_thread: ClassVar[bool] = True
    """True if methods run in a thread, which is left behind after `timeout`. `False` saves the thread: only for methods
    that wait for nothing and take well under a millisecond on small values. Nothing can interrupt them: while one runs,
    the whole product waits, and an answer after `timeout` blocks."""

    def __init__(self, settings: Any) -> None:
        """`settings` is an instance of `Settings`."""
        self.settings = settings

    def before_program(self, program: GuardedProgram) -> CallVerdict:
        """The verdict on a program before it is checked and run; a `Change` has the new code. `Ask` asks the person
        about each of its calls."""
        raise NotImplementedError

    def before_call(self, call: GuardedCall) -> CallVerdict:
        """The verdict on a call before it is sent; a `Change` has the new arguments."""
        raise NotImplementedError

    def after_call(self, call: GuardedCall, result: GuardedResult) -> ResultVerdict:
        """The verdict on the answer to a call before the program gets it; a `Change` has the new value."""
        raise NotImplementedError

    def on_result(self, program: GuardedProgram, result: ProgramResult) -> ResultVerdict:
        """The verdict on what the model gets in the end; a `Change` has a new `ProgramResult`. For a call that the host
        makes without a program, the program has no code."""
        raise NotImplementedError
