"""Meta-tools used when the configuration is unusable: they report the reason to the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import GetPromptResult

from codemode_server.domain.errors import CodemodeError, MetaToolError, SettingsError
from codemode_server.domain.principals import Session
from codemode_server.front.meta_tools import definitions
from codemode_server.front.tools.registry import Answer, Changed, Host, MetaToolSpec, Progress, ToolArguments
from codemode_server.settings import Settings
from codemode_server.text import clean

_MAX_LINES = 4
"""Maximum error lines shown; `config check` shows all."""


class Unconfigured:
    """Stands in for `ConfiguredMetaTools`, without servers and programs: nothing is known of them."""

    has_structured_content = False

    def __init__(self, error: CodemodeError) -> None:
        lines = clean(str(error)).splitlines()
        shown = [*lines[:_MAX_LINES], *(["…"] if len(lines) > _MAX_LINES else [])]
        if isinstance(error, SettingsError):
            head = "No servers: the configuration of codemode-server can't be used. The user must fix this:"
            tail = [
                "A saved correction is picked up without a restart; `codemode-server config check` shows all errors."
            ]
        else:
            head, tail = "No servers: codemode-server can't start. The user must fix this:", []
        self._message = "\n".join([head, *shown, *tail])

    def on_change(self, listener: Callable[[Changed], Awaitable[None]]) -> None:
        """There are no direct tools."""

    async def definitions(self, session: Session, given: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
        return given or definitions(Settings())

    async def call_direct(
        self, name: str, arguments: dict[str, Any], session: Session, progress: Progress, host: Host
    ) -> Answer:
        raise MetaToolError(self._message)

    async def call(
        self, spec: MetaToolSpec[Any], arguments: ToolArguments, session: Session, progress: Progress, host: Host
    ) -> Answer:
        if spec.message_content is None:
            raise MetaToolError(self._message)
        return Answer(self._message, spec.message_content(self._message))

    async def prompts(self) -> list[dict[str, Any]]:
        return []

    async def get_prompt(
        self, name: str, arguments: dict[str, str], session: Session, progress: Progress, host: Host
    ) -> GetPromptResult:
        raise MetaToolError(self._message)

    async def read_resource(self, uri: str, session: Session) -> ReadResourceContents:
        raise MetaToolError(self._message)
