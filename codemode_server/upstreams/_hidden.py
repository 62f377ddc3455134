"""Tools that a server lists only for clients with elicitation, sampling or roots, which we don't declare yet.

Nothing in the protocol says that there are such tools; only a client that declares the features sees them. A second
connection is opened for that, briefly, and only to a server whose own words mention one of the features: a second
process of a server may open a browser, take a port or a lock, and nearly all servers have nothing to hide.

Declaring the features on the connection that makes the calls, and refusing what is asked, would be worse: tools that
ask a person only where they can, and go on without, would then always be refused.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from codemode_server.domain.tools import ToolDefinition
from codemode_server.off_loop import run_large
from codemode_server.upstreams._link import Link
from codemode_server.upstreams._listing import ToolsFound
from codemode_server.upstreams._negotiation import negotiate
from codemode_server.upstreams.transports.registry import Transport

if TYPE_CHECKING:
    from mcp.client.session import IncomingMessage

_FEATURES = {
    "elicitation": re.compile(r"elicit", re.IGNORECASE),
    "sampling": re.compile(r"\bsampling\b", re.IGNORECASE),
    "roots": re.compile(r"\broots\b", re.IGNORECASE),
}
_MAX_CHARACTERS = 20_000
"""Characters of each text that are searched."""
_NEGOTIATED = re.compile(r"\b(client|request|capabilit|mcp|support)", re.IGNORECASE)
"""`sampling` and `roots` are words of audio, statistics and trees as well."""


async def find_hidden_tools(
    link: Link,
    listed: Iterable[ToolDefinition],
    transport: Callable[[], Transport],
    list_tools: Callable[[Link], Awaitable[ToolsFound]],
    *,
    probe_s: float,
) -> tuple[ToolDefinition, ...]:
    """Tools that a second connection lists and `link` does not; it is made only if a text suggests that there are any.

    Raises whatever making the second connection raises.
    """
    listed = tuple(listed)
    texts = [link.session.instructions or "", *(tool.description for tool in listed)]
    if not await run_large(_mentions_client_features, texts):
        return ()
    async with transport().open() as streams:
        other = Link(streams, _ignore, declares_features=True)
        async with other.session:
            await negotiate(other, legacy=not link.is_modern, probe_s=probe_s)
            found = await list_tools(other)
            return await run_large(_hidden_tools, listed, found.tools)


async def _ignore(message: IncomingMessage) -> None:
    """Drop a notification or request of the server: the second connection only lists."""


def _mentions_client_features(texts: Iterable[str]) -> bool:
    """Whether a server's instructions or descriptions speak of features that a client may have."""
    return any(_NEGOTIATED.search(text[:_MAX_CHARACTERS]) and _features_in(text) for text in texts)


def _hidden_tools(
    listed: Iterable[ToolDefinition], with_features: Iterable[ToolDefinition]
) -> tuple[ToolDefinition, ...]:
    """The tools listed only to a client with all features, each marked with the feature that it needs."""
    known = {tool.name for tool in listed}
    return tuple(replace(tool, needs=_need(tool)) for tool in with_features if tool.name not in known)


def _need(tool: ToolDefinition) -> str:
    features = _features_in(f"{tool.name} {tool.title or ''} {tool.description}".replace("_", " ").replace("-", " "))
    return features[0] if len(features) == 1 else "elicitation, sampling or roots"


def _features_in(text: str) -> list[str]:
    return [name for name, pattern in _FEATURES.items() if pattern.search(text[:_MAX_CHARACTERS])]
