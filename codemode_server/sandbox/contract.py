"""What every sandbox backend promises: run one program, answer its requests, end it at a limit.

A backend knows nothing of tools, policy or MCP. What a program asks of the host goes through a `HostApi`, the one
object it is handed; what a program is comes as a `Program`. `run` returns an `Outcome` for whatever the program does
and raises only for what is not the program's doing (`SandboxFailed`, `SandboxUnavailable`, cancellation).

The guest is hostile: every frame it sends is parsed once, in `frames`, and is believed in nothing but the request
itself. Who is calling is known from the `HostApi`, never from a frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import anyio

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.domain.executions import IsolationLevel
from codemode_server.domain.ids import ExecutionId, JsonValue


@dataclass(frozen=True, slots=True)
class Reply:
    """What a call gives back to the program."""

    value: JsonValue
    encoding: Literal["json", "blocks"] = "json"
    """`json`: the value itself. `blocks`: a list of these, of which the guest makes values and files:

    * `{"type": "json", "value": …}`; with `beside`, a dict, what the upstream sent beside it: `text`, and `files`
    * `{"type": "text", "text": …}`
    * `{"type": "file", "mime_type": …, "name": …, "uri": …}` with `data` in base64, or `text`, or neither: then it is a
      link that can be read, perhaps with its `size`; a file beside a value may have `at` in place of `data`: the path
      (keys and indices) to the base64 string, or `data:` URI, in that value
    * `{"type": "calls", "numbers": […]}` for a program that failed: those of its calls whose results are stored
    * `{"type": "piece", "text": …, "next": …, "as": …}`: a part of a long artifact, the byte at which the next one
      begins (or null), and the block whose `text` or `data` all joined are; of type `json` it has an `encoding`

    A lone block stands for its value."""


class HostApi(Protocol):
    """All that a program can reach of the host. Each method may be awaited many times at once."""

    async def call(self, server: str, tool: str, arguments: dict[str, Any], *, raw: bool = False) -> Reply:
        """Call a tool, both named as in `servers.<server>.<tool>`; `raw` gives the result as the upstream sent it.

        Raises:
            CallError: the program sees it as `ToolError` and goes on.
            ExecutionError: ends the program.
        """

    async def read(self, server: str, uri: str) -> Reply:
        """Read a resource that a call of this program gave it a link to.

        Raises:
            CallError, ExecutionError: as for `call`.
        """

    async def load(self, module: str) -> dict[str, Any]:
        """The source of an importable module, by its dotted name.

        `servers` and `servers.<server>` answer `{"kind": "package", "names": [...], "doc": str}`,
        `servers.<server>.<tool>` and `skills.<name>` `{"kind": "module", "source": str}`, `skills` a package.

        Raises:
            UnknownTool: with the nearest names; the program sees it as `ImportError`.
        """

    async def search(
        self, query: str, detail_level: str, server: str | None, limit: int, effect: str | None
    ) -> list[Any]:
        """What `search_tools` finds, for programs that search for themselves.

        Raises:
            MetaToolError: the program sees it as `ValueError`.
        """

    async def show(self, data: bytes, mime_type: str | None, name: str | None) -> str:
        """Show a file to the model, beside what the program gives back; says what became of it.

        Raises:
            MetaToolError: there is no room for it; the program sees it as `ValueError`.
        """

    async def artifact(self, name: str | None, start: int = 0) -> Reply:
        """What an earlier program of the same session gave back, a long one in pieces; without a name, the names,
        oldest first.

        Raises:
            MetaToolError: there is none of that name; the program sees it as `KeyError`.
        """


@dataclass(frozen=True, slots=True)
class Limits:
    """What one program may use; the settings of the same names, checked on the host."""

    wall_seconds: float = 60.0
    wall_seconds_from_argument: bool = False
    """Whether `wall_seconds` comes from `execute_code`'s `timeout` argument rather than the setting."""
    upstream_seconds: float = 600.0
    memory_mb: int = 256
    output_bytes: int = 8 * 2**20
    calls: int = 1_000
    calls_in_flight: int = 16
    call_bytes: int = 16 * 2**20
    value_bytes: int = 4 * 2**20
    workspace_mb: int = 256

    @property
    def max_value_bytes(self) -> int:
        """A value above `value_bytes` is stored whole and shown cut; above this one, the program is ended."""
        return max(self.value_bytes, self.call_bytes)

    @property
    def max_output_bytes(self) -> int:
        """The same for output."""
        return max(self.output_bytes, self.call_bytes)


@dataclass(frozen=True, slots=True)
class Program:
    """One program to run."""

    execution_id: ExecutionId
    code: str
    limits: Limits
    workspace: Path | None = None
    """Host folder seen as /workspace, or None for none."""
    session_id: str = ""
    """Whose program it is; a sandbox that keeps anything between programs keeps it for one session only."""
    is_last: bool = False
    """Whether no other program will be of this session, so that nothing need be kept."""
    modules: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Answers of `HostApi.load` that it will ask for; a package's may lack the names."""
    begun: anyio.Event = field(default_factory=anyio.Event)
    """Set when it begins to run, in a sandbox that is up."""


class Ending(StrEnum):
    """A program …"""

    RETURNED = "returned"  # came to its end; there may be a value
    RAISED = "raised"  # ended with an exception of its own, or is no Python
    LIMITED = "limited"  # passed a limit and was ended
    DIED = "died"  # the sandbox died under it


@dataclass(frozen=True, slots=True)
class ProgramError:
    """Why a program did not return; text of the guest's making, so untrusted and already bounded."""

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
    """What would most likely mend it, as far as the guest can tell."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended."""

    ending: Ending
    value: JsonValue = None
    value_form: Literal["none", "json", "repr"] = "none"
    """`none`: the program gave no value. `repr`: it gave one that JSON can't hold, so `value` is its text."""
    hint: str = ""
    """What the guest has to say about the value, for the model."""
    error: ProgramError | None = None
    stdout: str = ""
    stderr: str = ""
    program_ms: float = 0.0
    """Time of the program itself."""
    upstream_ms: float = 0.0
    """Time during which at least one call was on its way."""


class SandboxBackend(Protocol):
    """One technology that can run programs."""

    name: str
    """As in `sandbox.backend`."""
    level: IsolationLevel
    importable: frozenset[str] | None
    """The top-level modules that programs can import; None if that is not known."""

    async def start(self) -> None:
        """Make ready: build or find what is needed, boot `sandbox.warm` sandboxes. Called in the background, once.

        Raises:
            SandboxUnavailable: with the reason and what to do.
        """

    async def tend(self) -> None:
        """What the backend does by itself from `start` to `aclose`, in a task of its own; cancelled then."""

    async def run(self, program: Program, host_api: HostApi) -> Outcome:
        """Run one program where nothing of another is left, and leave nothing of it, also when cancelled.

        Raises:
            SandboxUnavailable: no sandbox could be started.
        """

    async def aclose(self) -> None:
        """End every sandbox and wait until they are gone."""


Backend = TypeVar("Backend", bound=SandboxBackend)


async def started(backend: Backend) -> Backend:
    """Start a backend, or close it and raise.

    Raises:
        SandboxUnavailable: it can't be started.
    """
    try:
        await backend.start()
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await backend.aclose()
        if isinstance(error, OSError):
            raise SandboxUnavailable(f"the sandbox can't be started: {error}") from error
        raise
    return backend
