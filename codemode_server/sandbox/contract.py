"""The contract of a sandbox backend: run one program, answer its requests, end it at a limit.

A backend knows nothing of tools, policy or MCP. It gets a `Program` and a `HostApi`, which answers the program's
requests. `run` returns an `Outcome` whatever the program does, and raises only for causes outside the program
(`SandboxFailed`, `SandboxUnavailable`, cancellation).

The guest is hostile: each of its frames is parsed once, in `frames`, and is trusted for nothing but the request itself.
The `HostApi` knows who is calling; a frame never says it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import anyio

from codemode_server.config.settings import LimitSettings
from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.domain.executions import IsolationLevel, Repeat
from codemode_server.domain.ids import ExecutionId, JsonValue

if TYPE_CHECKING:
    from anyio.abc import ByteSendStream

    from codemode_server.processes.stream_readers import FrameReader
    from codemode_server.sandbox.channel import Channel
    from codemode_server.sandbox.packages.installed import Packages


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a call for the program."""

    value: JsonValue
    encoding: Literal["json", "blocks"] = "json"
    """`json`: the value itself. `blocks`: a list of these, of which the guest makes values and files:

    * `{"type": "json", "value": …}`; with `beside`, a dict, what the upstream sent beside it: `text`, and `files`
    * `{"type": "text", "text": …}`
    * `{"type": "file", "mime_type": …, "name": …, "uri": …}` with `data` in base64, or `text`, or neither: then it is a
      link that can be read, perhaps with its `size`; a file beside a value may have `at` in place of `data`: the path
      (keys and indices) to the base64 string, or `data:` URI, in that value
    * `{"type": "placeholder", "value": …, "unknown": […]}` in a dry run: the texts in the value that stand for
      something of unknown type

    A lone block stands for its value."""
    is_block_list: bool = False
    """True if the value is a list of whose items each came as a text of its own."""


ArgumentForms = Sequence[tuple[tuple[str | int, ...], Mapping[str, Any]]]
"""Texts in the arguments of a call that stand for Python values (decimals, dates, bytes): the path to each, and the
other forms that it has, by JSON type (`number`) or by format (`date`, `date-time`, `duration`); `base64`: it is that of
bytes."""


class HostApi(Protocol):
    """Everything that a program can ask of the host. Each method may be awaited many times at once. Of errors a
    `CallError` of `call` and `read`, and a `CodemodeError` of the others, goes to the program, which continues; an
    `ExecutionError` ends it."""

    async def call(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        raw: bool = False,
        forms: ArgumentForms = (),
    ) -> Reply:
        """Call a tool, named as in `servers.<server>.<tool>`; `raw` returns the result as the upstream sent it."""

    async def read(self, server: str, uri: str, arguments: dict[str, Any]) -> Reply:
        """Read a resource that the result of an earlier call of this program linked to, by its URI, or one that the
        server lists, by its URI or name; `arguments` are those of a template."""

    async def resources(self, server: str) -> list[Any]:
        """The resources and templates that a server lists, as programs see them."""

    async def load(self, module: str) -> dict[str, Any]:
        """The source of an importable module, by its dotted name. `servers` and `servers.<server>` answer `{"kind":
        "package", "names": [...], "doc": str}`, `servers.<server>.<tool>` and `skills.<name>` `{"kind": "module",
        "source": str}`, `skills` a package. A skill that is a folder is a package, too."""

    async def search(
        self, query: str, detail_level: str, server: str | None, limit: int, effect: str | None
    ) -> list[Any]:
        """Search for tools, as `search_tools` does."""

    async def save_skill(self, name: str, text: str) -> str:
        """Save a skill for later programs; returns a message for the program."""

    async def show(self, data: bytes, mime_type: str | None, name: str | None) -> str:
        """Show a file to the model beside the program's result; returns a message for the program."""

    async def artifact(self, name: str | None) -> Reply:
        """An artifact of an earlier program of the same session; without a name, the names of all, oldest first."""


class Limits(LimitSettings):
    """Limits for one program; the host enforces them."""

    wall_seconds_from_argument: bool = False
    """True if `wall_seconds` comes from `execute_code`'s `timeout` argument rather than the setting."""

    @property
    def max_value_bytes(self) -> int:
        """A larger value ends the program; one above `value_bytes` is stored whole and shown cut."""
        return max(self.value_bytes, self.call_bytes)

    @property
    def max_output_bytes(self) -> int:
        """The same for printed output."""
        return max(self.output_bytes, self.call_bytes)


@dataclass(slots=True)
class HostWait:
    """How many calls of a program wait for an answer of the host's person or model."""

    calls: int = 0
    on_change: Callable[[], None] = lambda: None

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """One more call waits, until this is left."""
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    def _add(self, calls: int) -> None:
        self.calls += calls
        self.on_change()


@dataclass(frozen=True, slots=True)
class Program:
    execution_id: ExecutionId
    code: str
    limits: Limits
    workspace: Path | None = None
    """Host folder seen as /workspace, or None for none."""
    session_id: str = ""
    """The session of the program. A sandbox that is reused is reused for one session only."""
    is_last: bool = False
    """True if the session has no further programs, so that its sandbox need not be reused."""
    modules: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Answers of `HostApi.load`, sent with the program because it imports these modules; packages may lack `names`."""
    begun: anyio.Event = field(default_factory=anyio.Event)
    """Set when the program begins to run in a started sandbox."""
    host_wait: HostWait = field(default_factory=HostWait)
    """The limits of time stand still while all its calls in flight wait there."""
    repeat: Repeat = field(default_factory=Repeat.new)
    """The seed of its randomness; that of an earlier run for a program that runs again."""
    channel: Callable[[FrameReader, ByteSendStream, Program, HostApi, bytes], Channel] | None = None
    """Used in place of `Channel`, which for a program of a remote replica runs in that replica."""


class Ending(StrEnum):
    """A program …"""

    RETURNED = "returned"  # came to its end; there may be a value
    RAISED = "raised"  # ended with an exception of its own, or is no Python
    LIMITED = "limited"  # passed a limit and was ended
    DIED = "died"  # the sandbox died under it


@dataclass(frozen=True, slots=True)
class ProgramError:
    """Why a program did not return. The texts come from the guest, except for one that failed the check: untrusted,
    and bounded already."""

    type: str
    """The exception's name, `SyntaxError`, `ToolError`, or for a limit `LimitExceeded`."""
    message: str
    traceback: str = ""
    """The program's own lines only, as Python prints them; empty where there are none."""
    line: int | None = None
    """The line of the program where it happened; for a limit that ended it from outside, the last new line that it
    reached."""
    setting: str | None = None
    """For a limit, its name in `upstream.yaml`, or `timeout` for that argument."""
    hint: str = ""
    """The most likely correction, if the guest knows one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    ending: Ending
    value: JsonValue = None
    value_form: Literal["none", "json", "repr"] = "none"
    """`none`: the program gave no value. `repr`: it gave one that JSON can't hold, so `value` is its text."""
    hint: str = ""
    """A hint of the guest about the value, for the model."""
    error: ProgramError | None = None
    stdout: str = ""
    stderr: str = ""
    program_ms: float = 0.0
    """Time during which no call was in flight."""
    upstream_ms: float = 0.0
    """Time during which at least one call was in flight."""


def out_of_memory(limits: Limits) -> ProgramError:
    message = f"the program needed more than {limits.memory_mb} MiB of memory"
    return ProgramError("LimitExceeded", message, setting="limits.memory_mb")


def with_reason(outcome: Outcome, limits: Limits, reason: str, *, is_out_of_memory: bool) -> Outcome:
    """The outcome of a program whose sandbox is gone."""
    if is_out_of_memory:
        return replace(outcome, ending=Ending.LIMITED, error=out_of_memory(limits))
    return replace(outcome, error=ProgramError("SandboxFailed", f"the sandbox ended under the program: {reason}"))


@dataclass(frozen=True, slots=True)
class SandboxCount:
    idle: int
    """Those that wait for a program."""
    busy: int
    """Those that run one, start, or end."""


class SandboxBackend(Protocol):
    """One technology that can run programs."""

    name: str
    """Its value of `sandbox.backend`."""
    level: IsolationLevel
    importable: frozenset[str] | None
    """The top-level modules that programs can import; None if that is not known."""
    packages: Packages
    """The packages that programs can import besides."""

    @property
    def count(self) -> SandboxCount:
        """How many sandboxes there are now."""

    async def start(self) -> None:
        """Prepare what is needed, and start `sandbox.warm` sandboxes. Called once, in the background. Raises
        `SandboxUnavailable` with the reason and what to do."""

    async def tend(self) -> None:
        """Background work between `start` and `aclose`; runs in a task that is cancelled at the end."""

    async def run(self, program: Program, host_api: HostApi) -> Outcome:
        """Run one program in a clean sandbox, and clean up after it, also when cancelled. Raises `SandboxUnavailable`
        if no sandbox could be started."""

    async def aclose(self) -> None:
        """End every sandbox and wait until they are gone."""


Backend = TypeVar("Backend", bound=SandboxBackend)


async def started(backend: Backend) -> Backend:
    """Start a backend, or close it and raise. Raises `SandboxUnavailable` if it cannot be started."""
    try:
        await backend.start()
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await backend.aclose()
        if isinstance(error, OSError):
            raise SandboxUnavailable(f"the sandbox can't be started: {error}") from error
        raise
    return backend
