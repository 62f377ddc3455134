"""Asks the person by a local page: its address goes to a host that shows addresses, or to the person's browser."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from codemode_server.config.live import LiveConfig
from codemode_server.domain.approvals import Approval, ApprovalAnswer
from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest
from codemode_server.executions.approvals.message import short_text
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.web.browser import Browser

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from codemode_server.web.approval_server import ApprovalServer, OpenPage

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 5.0


class PageChannel:
    """Implements `ApprovalChannel`. Its server runs while there is a page."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config
        self._pages = 0
        self._wanted = anyio.Event()
        self._unused = anyio.Event()
        self._server: ApprovalServer | None = None
        self._started = anyio.Event()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Pages can be asked for until this is left."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._run)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def ask(self, calls: ExecutionCalls, approval: Approval) -> ApprovalAnswer | None:
        if not calls.context.is_local:
            return None  # the page, and the browser, are on the machine of somebody else
        features = calls.host.features
        if Feature.ELICITATION in features:  # its form asks the same
            return None
        shows_addresses = Feature.URL in features
        if not shows_addresses and self._config.settings.approvals.browser == "never":
            return None
        async with self._serving() as server:
            with server.page(approval.question) as opened:
                if shows_addresses:
                    return await self._by_host(calls, approval, opened)
                return await self._by_browser(opened)

    async def _by_host(self, calls: ExecutionCalls, approval: Approval, opened: OpenPage) -> ApprovalAnswer | None:
        """The answer on the page; a host whose user does not want to open it leaves the question to other channels."""
        has_page = True
        async with anyio.create_task_group() as tasks:

            async def show() -> None:
                nonlocal has_page
                params = {
                    "mode": "url",
                    "message": short_text(approval),
                    "url": opened.address,
                    "elicitationId": secrets.token_hex(8),
                }
                try:
                    answer = await calls.host.ask(InputRequest("elicitation/create", params))
                except InputRefused as refusal:
                    logger.info("the host did not show the page of %s: %s", approval.approval_id, refusal)
                    answer = {}
                has_page = answer.get("action") == "accept" or opened.answer is not None
                if not has_page:
                    tasks.cancel_scope.cancel()

            tasks.start_soon(show)
            await opened.answered.wait()
            tasks.cancel_scope.cancel()
        return opened.answer

    async def _by_browser(self, opened: OpenPage) -> ApprovalAnswer | None:
        browser = Browser("Answer the question")
        try:
            if not await anyio.to_thread.run_sync(browser.open, opened.address):
                return None
            return await opened.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(browser.close)

    @asynccontextmanager
    async def _serving(self) -> AsyncGenerator[ApprovalServer]:
        """The server, which is started for the first page and ended with the last."""
        self._pages += 1
        self._wanted.set()
        try:
            while self._server is None:
                await self._started.wait()
            yield self._server
        finally:
            self._pages -= 1
            if not self._pages:
                self._unused.set()

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            try:
                await self._serve()
            except OSError as error:
                logger.warning("the page of a question can't be served: %s", error)
                await anyio.sleep(_RETRY_SECONDS)

    async def _serve(self) -> None:
        """Serve pages until none is left."""
        serving = await anyio.to_thread.run_sync(_load)
        async with serving() as server:
            self._server = server
            self._started.set()
            try:
                while self._pages:
                    self._unused = anyio.Event()
                    await self._unused.wait()
            finally:
                self._server, self._started, self._wanted = None, anyio.Event(), anyio.Event()
                if self._pages:
                    self._wanted.set()


def _load() -> Callable[[], AbstractAsyncContextManager[ApprovalServer]]:
    """The server, whose libraries most runs of the product never need."""
    from codemode_server.web.approval_server import serving

    return serving
