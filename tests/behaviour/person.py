"""A host's user and model, for tests of what upstreams ask: they answer as they are told, and note what they saw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import mcp_types as types


@dataclass
class Person:
    """`callbacks` are for `mcp.Client`."""

    action: str = "accept"
    content: dict[str, Any] = field(default_factory=dict)
    contents: list[dict[str, Any]] = field(default_factory=list)
    """In place of `content`, in order; the last one is given again."""
    said: str = "the model's answer"
    seen: list[Any] = field(default_factory=list)
    """The parameters of what the host was asked, in order."""

    @property
    def callbacks(self) -> dict[str, Any]:
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
        }

    async def elicit(self, _context: Any, params: Any) -> types.ElicitResult:
        self.seen.append(params)
        content = self.content
        if self.contents:
            content = self.contents.pop(0) if len(self.contents) > 1 else self.contents[0]
        if self.action != "accept" or params.mode != "form":
            return types.ElicitResult(action=self.action)  # type: ignore[arg-type]
        return types.ElicitResult(action="accept", content=content)

    async def sample(self, _context: Any, params: Any) -> types.CreateMessageResult:
        self.seen.append(params)
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(type="text", text=self.said), model="m"
        )

    async def roots(self, _context: Any) -> types.ListRootsResult:
        self.seen.append("roots/list")
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada/work", name="work")])  # type: ignore[arg-type]


def choosing(*labels: str) -> Person:
    """One who gives these answers to questions about calls."""
    return Person(contents=[{"answer": label} for label in labels])
