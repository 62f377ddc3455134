"""The product behind the pages: one that runs, or one that is started for each check and each program."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import anyio.to_thread

from codemode_server.app import App
from codemode_server.cli.product import inspected, run_again, run_again_in
from codemode_server.config import LoadedSettings
from codemode_server.config.live import LiveConfig
from codemode_server.config.loading import load_place
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.input_requests import InputRefused
from codemode_server.redaction import Redactor

logger = logging.getLogger(__name__)

Action = Literal["resume", "replay"]
MAX_TEXT_CHARACTERS = 1_000
_CONNECT_SECONDS = 30.0


def failure_text(error: Exception, task: str, redactor: Redactor) -> str:
    """The message of an error that is meant for the person, without secrets; of others only their kind.

    `task` is for the log, such as `the check of the servers`.
    """
    while isinstance(error, ExceptionGroup):  # a product wraps what ends it
        error = error.exceptions[0]
    if isinstance(error, CodemodeError | InputRefused):
        return redactor.line(str(error), MAX_TEXT_CHARACTERS)
    kind = type(error).__name__
    logger.warning("%s failed: %s", task, kind)  # its text may hold a secret
    return f"internal error ({kind})"


class PageProduct:
    """The configuration, whose file may be edited, with the product that checks servers and runs programs.

    With an `app` it is that product, else one that is started each time. Raises a `CodemodeError` with a message for
    the person where it can't do something.
    """

    def __init__(self, loaded: LoadedSettings, app: App | None = None) -> None:
        self._loaded = loaded
        self._app = app
        self._redactor = Redactor(loaded.secrets)
        self._config = LiveConfig(loaded.settings, self._redactor)

    @property
    def loaded(self) -> LoadedSettings:
        return self._loaded if self._app is None else self._app.loaded

    @property
    def config(self) -> LiveConfig:
        return self._config if self._app is None else self._app.config

    @property
    def redactor(self) -> Redactor:
        """Masks the secrets of the configuration that `inspected` used last."""
        return self._redactor if self._app is None else self._app.config.redactor

    def present(self) -> LoadedSettings:
        """The configuration as its file is now, of which nothing may be started. Blocks."""
        place = self.loaded.place
        return self.loaded if place is None else load_place(place, require_trust=False, resolve=False)

    def usable(self) -> LoadedSettings:
        """The configuration as its file is now, with its secrets; one that was changed since it was trusted is
        refused. Blocks."""
        return self.loaded if self.loaded.place is None else load_place(self.loaded.place)

    @asynccontextmanager
    async def inspected(self) -> AsyncIterator[App]:
        """A product whose servers are connected, or have failed."""
        if self._app is not None:
            await self._app.pool.wait_settled(_CONNECT_SECONDS)
            await self._app.tools.prepare()
            yield self._app
            return
        loaded = await anyio.to_thread.run_sync(self.usable)
        self._redactor = Redactor(loaded.secrets)
        async with inspected(loaded, _CONNECT_SECONDS) as app:
            yield app

    async def run_again(self, action: Action, execution_id: ExecutionId) -> str:
        """The answer that the model would get of an execution that runs again."""
        if self._app is not None:
            return (await run_again_in(self._app, action, execution_id, as_json=False))[0]
        return (await run_again(self.loaded, action, execution_id, as_json=False))[0]
