"""The errors of codemode-server, by who has to act on them.

    CodemodeError
    ├── SettingsError          the person: upstream.yaml or the environment is wrong
    ├── SandboxUnavailable     the person: no sandbox can run here
    ├── JournalUnavailable     the person: the database can't be used (permissions, locked, full)
    ├── TokensFull             the person: the privacy tokens of a principal have no more room
    ├── AuditUnavailable       the person: the audit can't be read
    ├── SecretUnavailable      the person: a secret can't be read or stored
    ├── NotPrivate             the person: another user could write to the product's folders (`private_files`)
    ├── EncoderFailed          the person: search ranks without the model
    │   └── EncoderMissing     nobody has to act: no package for a model is installed
    ├── DecisionOutdated       nobody has to act: the kernel decides on the call again
    ├── MetaToolError          the model: a bad argument to one of the four tools
    ├── ExecutionError         the model: the program can't go on
    │   ├── LimitExceeded      a limit of upstream.yaml ended it
    │   └── SandboxFailed      the sandbox died under it
    └── CallError              the program: one call to a tool did not succeed
        ├── UnknownTool        no such server or tool
        ├── InvalidArguments   refused before anything was sent
        ├── CallRefused        refused by the permissions
        ├── UpstreamUnavailable  the server is not connected
        │   ├── AnswerLost       sent, and the connection ended before the answer
        │   └── SignInRequired   nothing was sent: the person has to sign in first
        ├── CallTimedOut       sent, and not answered in time
        ├── ToolFailed         answered by the upstream with an error
        │   └── ResultWithheld   answered, and a guardrail withholds the answer
        └── ResultTooLarge     the answer exceeds the limit of size or nesting

Errors stay typed up to the edge (the guest's `ToolError`, the host's `ToolError` result, the exit message) and
become text there once. `docs/programs.md` says what programs see of them. Messages say what, where, and what to
do next; identifiers stand in quotes.
"""

from __future__ import annotations

from typing import ClassVar


class CodemodeError(Exception):
    """Base of every error that codemode-server raises on purpose."""

    code: ClassVar[str] = "error"
    """Stable name of the kind of error, for programs; errors that reach no program have none of their own."""


class SettingsError(CodemodeError):
    """Raised when the configuration can't be used as it stands."""


class SandboxUnavailable(CodemodeError):
    """Raised when no sandbox that the configuration allows can run on this machine. `remedy` says what to do.
    `is_temporary`: another try may succeed (no network, disk full)."""

    def __init__(self, reason: str, remedy: str = "", *, is_temporary: bool = False) -> None:
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy
        self.is_temporary = is_temporary


class JournalUnavailable(CodemodeError):
    """Raised when a call or execution can't be recorded. A call that may write is not sent before it is recorded; one
    that only reads is not answered."""

    code = "journal_unavailable"


class TokensFull(CodemodeError):
    """Raised when personal data would need more room for privacy tokens than a principal has."""


class AuditUnavailable(CodemodeError):
    """Raised when the audit can't be written or read; it stops no call."""


class SecretUnavailable(CodemodeError):
    """Raised when a secret can't be read or stored; the message names the remedy and holds no value."""


class EncoderFailed(CodemodeError):
    """Raised when texts can't be encoded as vectors; search then uses the next best ranker. `remedy` says how to fix
    it. `may_retry` says whether another attempt may help: a process that ended, not a broken model."""

    def __init__(self, reason: str, remedy: str = "", *, may_retry: bool = False) -> None:
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy
        self.may_retry = may_retry


class EncoderMissing(EncoderFailed):
    """Raised when there is no model on this machine and none is configured; this is not a failure."""


class MetaToolError(CodemodeError):
    """Raised for a bad argument to one of the four tools; the message says what is valid."""

    code = "bad_argument"


class ExecutionError(CodemodeError):
    """Raised when a program has to be ended."""


class LimitExceeded(ExecutionError):
    """Raised when a program exceeds a limit of `upstream.yaml`. `setting` is the limit's full name there, for instance
    `limits.calls`."""

    code = "limit_exceeded"

    def __init__(self, message: str, *, setting: str) -> None:
        super().__init__(message)
        self.setting = setting


class SandboxFailed(ExecutionError):
    """Raised when the sandbox ended without the program having ended."""


class CallError(CodemodeError):
    """Base of what a program sees as `ToolError`: one call did not succeed, the program goes on."""

    code = "call_failed"


class UnknownTool(CallError):
    """Raised for a server or tool that the catalog doesn't have; names the nearest ones."""

    code = "unknown_tool"


class InvalidArguments(CallError):
    """Raised for arguments that the tool's schema refuses; nothing was sent."""

    code = "invalid_arguments"


class CallRefused(CallError):
    """Raised when the permissions refuse a call; nothing was sent."""

    code = "refused"


class UpstreamUnavailable(CallError):
    """Raised when the tool's server is not connected."""

    code = "unavailable"


class AnswerLost(UpstreamUnavailable):
    """Raised when the connection ended during the call; whether the upstream acted is not known."""


class SignInRequired(UpstreamUnavailable):
    """Raised when the person has to sign in to the tool's server first; nothing was sent."""


class DecisionOutdated(CodemodeError):
    """Raised when what a call was decided by changed while it waited for its server; nothing was sent. Not an error for
    programs: the kernel decides again."""


class CallTimedOut(CallError):
    """Raised when an upstream did not answer in time; whether it acted is not known."""

    code = "timed_out"


class ToolFailed(CallError):
    """Raised when the upstream answered with an error of its own."""

    code = "tool_failed"


class ResultWithheld(ToolFailed):
    """Raised when a guardrail withholds the answer of an upstream; the tool has acted."""

    code = "result_withheld"


class ResultTooLarge(CallError):
    """Raised for a result over the limit of size or nesting; the upstream did answer, so the tool may have acted."""

    code = "result_too_large"
