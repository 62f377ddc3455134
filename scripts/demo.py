"""The main job on real input, as a person would see it: `make demo`.

Three real MCP servers from PyPI, in environments of their own (their pins conflict); the product started as a host
starts it, over stdio; the way a model goes: list, search, read, execute. Then what was traced, and what it cost
in tokens against plain MCP. Nothing is faked: the collector that receives the traces is the one part of our own.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters, stdio_client
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from codemode_server.tokens import estimate_tokens
from scripts import real_servers
from scripts.npm import Unavailable

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".cache" / "demo"

UPSTREAMS = ("git", "time", "sqlite")

PROGRAM = """\
import asyncio, re
from collections import Counter
from servers.git import git_log, git_show
from servers.orders import read_query
from servers.time import get_current_time

log = git_log(repo_path={repository!r}, max_count=500)
commits = re.findall(r"^Commit: (\\w+)", log, re.M)
diffs = await asyncio.gather(*[git_show(repo_path={repository!r}, revision=c) for c in commits])
added = Counter()
for diff in diffs:
    name = None
    for line in diff.splitlines():
        if line.startswith("+++ b/"): name = line[6:]
        elif line.startswith("+") and name: added[name] += 1

rows = read_query(query="SELECT * FROM orders")
late = [r for r in rows if r["status"] == "pending" and r["amount"] > 950]
late.sort(key=lambda r: -r["amount"])

print("as of", get_current_time(timezone="Europe/Berlin")["datetime"])
print(len(commits), "commits,", sum(map(len, diffs)), "characters of diffs, most of them in", added.most_common(1)[0])
print(len(rows), "orders,", len(late), "pending above 950, together", round(sum(r["amount"] for r in late), 2))
late[:2]
"""


class DemoFailed(Exception):
    """Raised when a step did not come out right."""


def main() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    try:
        installed = real_servers.commands(UPSTREAMS)
        repository, database = _repository(), _orders()
        servers = {
            "git": [*installed["git"], "--repository", str(repository)],
            "time": [*installed["time"], "--local-timezone", "UTC"],
            "orders": [*installed["sqlite"], "--db-path", str(database)],
        }
        with _Collector() as collector:
            anyio.run(_demo, servers, repository, collector)
    except* subprocess.CalledProcessError as failures:
        failed = failures.exceptions[0]
        sys.exit(f"demo: {failed}\n{getattr(failed, 'stderr', '') or ''}")
    except* (DemoFailed, Unavailable) as failures:
        sys.exit(f"demo: {_first(failures)}")


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def _demo(servers: dict[str, list[str]], repository: Path, collector: _Collector) -> None:
    config = WORK / "upstream.yaml"
    settings = {
        "servers": {name: {"command": command[0], "args": command[1:]} for name, command in servers.items()},
        "permissions": {"rules": [{"allow": "git/git_log"}, {"allow": "git/git_show"}, {"deny": "git/*"}]},
        "tracing": {"otlp_endpoint": collector.address},
        "state": {"dir": str(WORK / "state")},
    }
    config.write_text(json.dumps(settings, indent=2))
    command = ["-m", "codemode_server", "--config", str(config)]
    seen = 0
    async with Client(StdioServerParameters(command=sys.executable, args=command, env={"LANG": "C.UTF-8"})) as client:

        async def call(tool: str, **arguments: Any) -> str:
            nonlocal seen
            result = await client.call_tool(tool, arguments, read_timeout_seconds=180)
            text = "\n".join(getattr(block, "text", "") for block in result.content)
            if result.is_error:
                raise DemoFailed(f"{tool} failed:\n{text}")
            seen += estimate_tokens(json.dumps(arguments)) + estimate_tokens(text)
            return text

        tools = (await client.list_tools()).tools
        shown = json.dumps([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])
        seen += estimate_tokens(shown + (client.instructions or ""))
        _heading("1. The host connects: what the model has in its context from now on")
        print(f"   {', '.join(tool.name for tool in tools)}: {seen} tokens")
        steps: tuple[tuple[str, str, dict[str, Any]], ...] = (
            ("2. The model looks around", "list_dir", {"path": "/servers"}),
            ("3. … searches", "search_tools", {"query": "commit history and diffs", "limit": 3}),
            ("4. … reads what it needs", "read_tool", {"path": "servers/git/git_log.py, servers/orders/read_query.py"}),
            ("5. … and writes one program", "execute_code", {"code": PROGRAM.format(repository=str(repository))}),
        )
        for heading, tool, arguments in steps:
            _heading(heading)
            print(_indented(f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"))
            print(_indented(await call(tool, **arguments), "   │ "))
        _heading("6. The programs of examples/programs/")
        for path in sorted((ROOT / "examples" / "programs").glob("*.py")):
            code = path.read_text().replace('REPOSITORY = "."', f"REPOSITORY = {str(repository)!r}")
            print(_indented(f"{path.name}\n{await call('execute_code', code=code)}", "   │ "))
    _heading("7. What was traced beneath it (OpenTelemetry, from the product's own exporter)")
    collector.print_tree("execution")
    _heading("8. Tokens through the model (estimated)")
    definitions, results = await _definition_tokens(servers), collector.total("codemode.result_tokens", "execution")
    print(f"   plain MCP: {definitions:>9,} of tool definitions + {results:,} of results = {definitions + results:,}")
    print(f"   here:      {seen:>9,} all in all, {(1 - seen / (definitions + results)):.1%} less")


async def _definition_tokens(servers: dict[str, list[str]]) -> int:
    """Tokens of the definitions of all tools, as a host without the product gets them."""
    tokens = 0
    with (WORK / "upstreams.log").open("w") as log:
        for command in servers.values():
            peer = stdio_client(StdioServerParameters(command=command[0], args=command[1:]), errlog=log)
            async with Client(peer, mode="legacy") as upstream:
                for tool in (await upstream.list_tools()).tools:
                    definition = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
                    tokens += estimate_tokens(json.dumps(definition))
    return tokens


def _repository() -> Path:
    """The project's own history; where there is none (an unpacked archive), one is made from the tree."""
    inside = subprocess.run(
        ["git", "-C", ROOT, "log", "-1"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if inside.returncode == 0:
        return ROOT
    made = WORK / "repository"
    if not (made / ".git").exists():
        shutil.copytree(ROOT / "codemode_server", made / "codemode_server", dirs_exist_ok=True)
        author = ["-c", "user.name=demo", "-c", "user.email=demo@example.invalid"]
        for arguments in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "The project, without its history"]):
            subprocess.run(["git", "-C", made, *arguments], check=True, stderr=subprocess.PIPE, text=True)
    return made


def _orders() -> Path:
    """A database with 10,000 orders, the same each time."""
    path = WORK / "orders.db"
    path.unlink(missing_ok=True)
    numbers = random.Random(7)
    rows = [
        (i, f"customer{numbers.randrange(900):03}@example.com", numbers.choice(["pending", "paid", "shipped"]),
         round(numbers.uniform(5, 1000), 2), f"2026-{numbers.randrange(1, 13):02}-{numbers.randrange(1, 29):02}")
        for i in range(1, 10_001)
    ]  # fmt: skip
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("CREATE TABLE orders (id INTEGER, customer TEXT, status TEXT, amount REAL, day TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()
    return path


class _Collector:
    """A collector of OTLP/HTTP traces on loopback, as small as can be."""

    def __enter__(self) -> _Collector:
        spans = self.spans = list[Span]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                request = ExportTraceServiceRequest()
                request.ParseFromString(body)
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        spans.extend(scope.spans)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def total(self, attribute: str, name: str) -> int:
        return sum(
            pair.value.int_value
            for span in self.spans
            if span.name == name
            for pair in span.attributes
            if pair.key == attribute
        )

    def print_tree(self, root: str, children_shown: int = 6) -> None:
        def show(span: Span, depth: int) -> None:
            known = {pair.key: pair.value for pair in span.attributes}
            milliseconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
            verdict = f" · {known['codemode.verdict'].string_value}" if "codemode.verdict" in known else ""
            print(f"   {'  ' * depth}└ {span.name} · {milliseconds:.1f} ms{verdict}")
            children = [child for child in self.spans if child.parent_span_id == span.span_id]
            for child in sorted(children, key=lambda child: child.start_time_unix_nano)[:children_shown]:
                show(child, depth + 1)
            if len(children) > children_shown:
                print(f"   {'  ' * (depth + 1)}… and {len(children) - children_shown} more like these")

        for span in self.spans:
            if span.name == root:
                show(span, 0)


def _heading(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def _indented(text: str, prefix: str = "   ") -> str:
    return "\n".join(prefix + line for line in text.splitlines())


if __name__ == "__main__":
    main()
