"""What the sandbox tests share: a host API with a few tools that live in the test, and a short way to run a program."""

from __future__ import annotations

import base64
import os
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.domain.errors import CodemodeError, MetaToolError, ToolFailed, UnknownTool
from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.backends.wasm.backend import WasmBackend
from codemode_server.sandbox.contract import (
    Ending,
    Limits,
    Outcome,
    Program,
    ProgramError,
    Reply,
    SandboxBackend,
    started,
)

SLOWNESS = 10 if os.environ.get("CODEMODE_VM") == "emulated" else 1
"""How many times slower the machine may be than one of today, where its processor is emulated; what a test allows or
expects in seconds is multiplied by it."""
MICROVM = [pytest.mark.microvm, pytest.mark.timeout(80 + 40 * SLOWNESS)]
"""The marks of a test that needs a microVM."""


def cases(rows: dict[str, Any] | list[str], *in_microvms: str) -> list[Any]:
    """Parameters by their names; only those in `in_microvms` run in microVMs, the others are portable."""
    rows = {row: row for row in rows} if isinstance(rows, list) else rows
    assert set(in_microvms) <= set(rows)
    marks: dict[str, Any] = dict.fromkeys(in_microvms, ())
    return [
        pytest.param(
            *(row if isinstance(row, tuple | list) else (row,)), id=name, marks=marks.get(name, pytest.mark.portable)
        )
        for name, row in rows.items()
    ]


HEAD = "from servers import tool\nfrom typing import Any, Literal, NotRequired, TypedDict\n"
STUBS = {
    ("github", "list_issues"): 'def list_issues(repo: str, state: str = ...) -> Any:\n    """List issues."""',
    ("github", "boom"): 'def boom() -> Any:\n    """Fail."""',
    ("github", "create_issue"): (
        "def create_issue(owner: str, title: str, auth_method: str = ..., labels: list[str] = ...) -> Any:\n"
        '    """Create an issue."""'
    ),
    ("github", "echo"): 'def echo(**arguments: Any) -> Any:\n    """Give the arguments back."""',
    ("github", "update"): 'def update(data: dict[str, Any], key: str = ...) -> Any:\n    """Takes an object first."""',
    (
        "github",
        "meet",
    ): 'def meet(n: int, company: int) -> Any:\n    """Answer once `company` calls are here at once."""',
    ("github", "forever"): 'def forever() -> Any:\n    """Never answer."""',
    ("github", "rows"): 'def rows(count: int) -> Any:\n    """Give many rows."""',
    ("github", "statistics"): 'def statistics(kind: str) -> Any:\n    """Named like a module of Python."""',
    ("github", "picture"): 'def picture() -> Any:\n    """Give a file."""',
    ("google_drive", "get_document"): 'def get_document(document_id: str) -> Any:\n    """Read a document."""',
    ("google_drive", "get_sheet"): 'def get_sheet(sheet_id: str) -> Any:\n    """Read a sheet."""',
}
RENAMED = {"create_issue": {"auth_method": "auth-method"}, "get_document": {"document_id": "documentId"}}
RENAMED["get_sheet"] = {"sheet_id": "sheetId"}
SKILLS = {
    "triage": (
        "from servers.github import list_issues\n\n\n"
        "def triage(repo):\n    return len(list_issues(repo=repo))\n\n\n"
        "def broken():\n    raise ValueError('in a skill')\n"
    )
}
ISSUES = [
    {"number": 1, "title": "a", "labels": ["bug"], "created_at": "2026-01-01T00:00:00Z"},
    {"number": 2, "title": "b", "labels": ["bug", "ui"], "created_at": "2026-01-05T00:00:00Z"},
]
PICTURE = b"\x89PNG\r\n\x1a\n\x00\xff"


KEPT = {
    "x1": Reply([1, {"a": "b"}]),
    "x1/1": Reply(
        [{"type": "file", "data": base64.b64encode(PICTURE).decode(), "mime_type": "image/png", "name": "p.png"}],
        "blocks",
    ),
    "x2": Reply("text"),
}


class Tools:
    """A `HostApi`; what went through it is in `calls`, `loads` and `shown`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.loads: list[str] = []
        self.shown: list[tuple[bytes, str | None, str | None]] = []
        self.saved: dict[str, str] = {}
        self.here = 0
        self.most_here = 0
        self.fail_with: CodemodeError | None = None
        self._met = anyio.Event()

    async def call(self, server: str, tool: str, arguments: dict[str, Any], *, raw: bool = False, **_: Any) -> Reply:
        self.calls.append((server, tool, arguments))
        self.here += 1
        self.most_here = max(self.most_here, self.here)
        try:
            reply = await self._answer(server, tool, arguments)
        finally:
            self.here -= 1
        return Reply({"content": [], "structuredContent": reply.value}) if raw else reply

    async def resources(self, server: str) -> list[Any]:
        return [{"name": "a", "uri": "doc://a"}, {"name": "letter", "uri": "doc://{id}", "arguments": ["id"]}]

    async def read(self, server: str, uri: str, arguments: dict[str, Any]) -> Reply:
        self.calls.append((server, "read_resource", {"uri": uri, **arguments}))
        if self.fail_with is not None:
            raise self.fail_with
        return Reply(
            [{"type": "file", "mime_type": "text/plain", "name": "a", "uri": uri, "text": f"in {uri}"}], "blocks"
        )

    async def _answer(self, server: str, tool: str, arguments: dict[str, Any]) -> Reply:
        if self.fail_with is not None:
            raise self.fail_with
        if (server, tool) not in STUBS:
            raise UnknownTool(f"there is no tool {tool!r} on server {server!r}")
        match tool:
            case "boom":
                raise ToolFailed("boom: no such repository")
            case "list_issues":
                return Reply(ISSUES)
            case "meet":
                return await self._meet(arguments)
            case "forever":
                await anyio.sleep_forever()
            case "rows":
                return Reply([{"id": n, "name": f"row {n}", "note": "x" * 150} for n in range(arguments["count"])])
            case "picture":
                data = base64.b64encode(PICTURE).decode()
                file = {"type": "file", "data": data, "mime_type": "image/png", "name": "p.png", "uri": None}
                return Reply([file], "blocks")
            case "get_document":
                return Reply({"content": f"text of {arguments['documentId']}"})
            case "get_sheet":
                return Reply([{"Status": "pending", "Order ID": n} for n in range(3)])
            case "create_issue":
                return Reply({"number": 7, **arguments})
        return Reply(arguments)

    async def _meet(self, arguments: dict[str, Any]) -> Reply:
        if self.here >= arguments["company"]:
            self._met.set()
        await self._met.wait()
        return Reply({"n": arguments["n"]})

    async def load(self, module: str) -> dict[str, Any]:
        self.loads.append(module)
        parts = module.split(".")
        servers = sorted({server for server, _ in STUBS})
        match parts:
            case ["servers"]:
                return {"kind": "package", "names": servers, "doc": "All servers."}
            case ["skills"]:
                return {"kind": "package", "names": sorted(SKILLS), "doc": "Saved programs."}
            case ["servers", server] if server in servers:
                names = [tool for owner, tool in STUBS if owner == server]
                return {"kind": "package", "names": names, "doc": f"{server}."}
            case ["servers", server, tool] if (server, tool) in STUBS:
                decorator = f'@tool("{server}", "{tool}", {RENAMED.get(tool, {})!r})\n'
                return {"kind": "module", "source": f"{HEAD}\n{decorator}{STUBS[server, tool]}\n"}
            case ["skills", name] if name in {**SKILLS, **self.saved}:
                return {"kind": "module", "source": {**SKILLS, **self.saved}[name]}
        raise UnknownTool(f"there is no {module!r}; nearest: servers.github.create_issue")

    async def search(
        self, query: str, detail_level: str, server: str | None, limit: int, effect: str | None
    ) -> list[Any]:
        if detail_level not in ("name_only", "with_description", "full"):
            raise MetaToolError(f"detail_level {detail_level!r} is none of name_only, with_description, full")
        return [{"query": query, "detail_level": detail_level, "server": server, "limit": limit, "effect": effect}]

    async def save_skill(self, name: str, text: str) -> str:
        if "refused" in text:
            raise MetaToolError("not saved: no room")
        self.saved[name] = text
        return f"skills.{name} saved"

    async def show(self, data: bytes, mime_type: str | None, name: str | None) -> str:
        if data == b"refused":
            raise MetaToolError("show(): no room")
        self.shown.append((data, mime_type, name))
        return "shown"

    async def artifact(self, name: str | None) -> Reply:
        if name is None:
            return Reply(list(KEPT))
        if name not in KEPT:
            raise MetaToolError(f"no result {name!r} in this session")
        return KEPT[name]


@asynccontextmanager
async def workers(*, warm: int = 1) -> AsyncIterator[WasmBackend]:
    """A wasm backend of the test's own."""
    backend = await started(WasmBackend(warm=warm))
    try:
        yield backend
    finally:
        await backend.aclose()


def pids_of(backend: WasmBackend) -> frozenset[int]:
    return frozenset(worker.pid for worker in backend._all)


RAW = {
    "wasm": """
import json, sys
for module in list(sys.modules.values()):
    if getattr(module, "__name__", "").endswith("wit_world"):
        raw = module
def send(**frame): raw.send(json.dumps(frame))
""",
    "microsandbox": """
import gc, json
raw = next(found for found in gc.get_objects() if type(found).__name__ == "Link")._transport
def send(**frame): raw.send(json.dumps(frame))
""",
}
RAW["remote"] = RAW["wasm"]
"""The raw transport, found as a hostile program would find it: `raw.send(text)` and `send(op=…, …)`."""


class Lab:
    """One backend and short ways to use it. All programs are of one session and share one workspace."""

    def __init__(self, backend: SandboxBackend, workspace: Path | None) -> None:
        self.backend = backend
        self.workspace = workspace
        self.raw = RAW[backend.name]

    async def run(
        self, code: str, host_api: Tools | None = None, *, session: str = "lab", is_last: bool = False, **limits: Any
    ) -> Outcome:
        made = Limits(**{"wall_seconds": 20.0 * SLOWNESS, **limits})
        program = Program(ExecutionId("x0"), textwrap.dedent(code), made, self.workspace, session, is_last)
        with anyio.fail_after(30 + 30 * SLOWNESS):
            return await self.backend.run(program, host_api or Tools())

    async def value(self, code: str, host_api: Tools | None = None, *, session: str = "lab", **limits: Any) -> Any:
        """The value of a program that has to return."""
        outcome = await self.run(code, host_api, session=session, **limits)
        assert outcome.ending is Ending.RETURNED, outcome
        return outcome.value

    async def failure(self, code: str, host_api: Tools | None = None, **limits: Any) -> ProgramError:
        """The error of a program that has to have one."""
        outcome = await self.run(code, host_api, **limits)
        assert outcome.error is not None, outcome
        return outcome.error

    async def error(self, code: str, host_api: Tools | None = None, **limits: Any) -> tuple[str, str]:
        """Type and message of a program that has to raise."""
        outcome = await self.run(code, host_api, **limits)
        assert outcome.ending is Ending.RAISED, outcome
        assert outcome.error is not None
        return outcome.error.type, outcome.error.message

    async def limit(self, code: str, host_api: Tools | None = None, **limits: Any) -> str:
        """The setting that ended a program; and the next program runs as if nothing had been."""
        outcome = await self.run(code, host_api, **limits)
        assert outcome.ending is Ending.LIMITED, outcome
        assert outcome.error is not None
        assert outcome.error.setting is not None
        assert outcome.error.setting not in outcome.error.message, "it is named once, beside the hint"
        assert await self.value("6 * 7") == 42
        return outcome.error.setting

    async def end(self, session: str) -> None:
        """Have nothing kept for a session any more."""
        await self.run("1", session=session, is_last=True)

    async def python(self) -> tuple[int, int]:
        """The version of the Python that runs the programs."""
        major, minor = await self.value("import sys\nsys.version_info[:2]")
        return major, minor
