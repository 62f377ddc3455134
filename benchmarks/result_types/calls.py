"""Calls of the tasks' tools from which their result types are learned, in an order that works on a new world."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ToolCalls:
    """The calls of one tool."""

    server: str
    tool: str
    """By the upstream's own name."""
    arguments: tuple[dict[str, Any], ...]
    """For each call; places such as `{repository}` are filled in by `World.filled`."""


def corpus() -> list[ToolCalls]:
    rows = json.loads(Path(__file__).with_name("calls.json").read_text())
    return [ToolCalls(row["server"], row["tool"], tuple(row["arguments"])) for row in rows]
