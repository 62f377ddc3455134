"""Real results against the types that stubs give them, by a type checker: each as a literal in a module of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.servers_package import servers_package_source
from codemode_server.sandbox.contract import Reply

_MYPY = ("mypy", "--strict", "--disable-error-code=empty-body", "--no-error-summary", "--no-color-output")
"""A stub has no body by design."""


@dataclass(frozen=True)
class Claim:
    """A value, said to be of a type in a tool's stub."""

    tool: Tool
    value: str
    """As Python source."""
    type: str = ""
    """As Python source; empty for the type that the stub gives to results."""


def as_source(reply: Reply) -> str:
    """A reply as the program gets it, as Python source that a type checker can read."""
    if reply.encoding == "json" or not isinstance(reply.value, list):
        return repr(reply.value)
    parts = [_block_as_source(block) for block in reply.value]
    return parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"


def refused(claims: Iterable[Claim]) -> dict[Claim, str]:
    """Those claims that `mypy --strict` does not believe, and what it says of each.

    Raises:
        RuntimeError: it found fault with a stub itself.
    """
    modules: dict[str, list[str]] = {}
    places: dict[tuple[str, int], Claim] = {}
    for number, claim in enumerate(claims):
        module = f"{claim.tool.server}_{claim.tool.name}_claims.py"
        lines = modules.setdefault(module, [*claim.tool.stub.source.splitlines(), "from servers import File"])
        lines.append(f"value_{number}: {claim.type or claim.tool.returned.type} = {claim.value}")
        places[module, len(lines)] = claim
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "servers"
        package.mkdir()
        (package / "__init__.py").write_text(servers_package_source())
        for name, lines in modules.items():
            (Path(folder) / name).write_text("\n".join(lines) + "\n")
        done = subprocess.run(
            [sys.executable, "-m", *_MYPY, "--cache-dir", str(Path(folder) / "cache"), *modules],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    said: dict[Claim, str] = {}
    for line in done.stdout.splitlines():
        found = re.match(r"(?P<file>[\w/.]+):(?P<line>\d+): (?:error|note): (?P<message>.*)", line)
        if found is None or (place := (found["file"], int(found["line"]))) not in places:
            raise RuntimeError(f"mypy on a stub: {line}")
        said.setdefault(places[place], found["message"])
    if done.returncode and not said:
        raise RuntimeError(f"mypy: {done.stderr or done.stdout}")
    return said


def _block_as_source(block: object) -> str:
    match block:
        case {"type": "file"}:
            return "File()"
        case {"type": "text", "text": text}:
            return repr(text)
        case {"type": "json", "value": value}:
            return repr(value)
        case _:
            return repr(block)
