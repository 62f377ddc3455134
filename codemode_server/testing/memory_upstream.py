"""The settings of an upstream that is an `MCPServer` of this process: no child process, no port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codemode_server.settings import ServerSettings

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


def memory_upstream(server: MCPServer[Any], **settings: Any) -> ServerSettings:
    """For `servers` of `Settings`; `settings` are those that every server has, for instance `timeout`."""
    return ServerSettings.model_validate({"server_object": server, **settings})
