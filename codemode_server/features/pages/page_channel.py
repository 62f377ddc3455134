"""Asks the person by a local page: its address goes to a host that shows addresses, or to the person's browser."""

from __future__ import annotations

import logging
import secrets
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.config.live import LiveConfig
from codemode_server.domain.approvals import Approval, ApprovalAnswer
from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest
from codemode_server.features import create
from codemode_server.support.browser import Browser

if TYPE_CHECKING:
    from codemode_server.features.pages.questions import OpenPage

logger = logging.getLogger(__name__)


class PageChannel:
    """Implements `ApprovalChannel`."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config

    async def ask(self, calls: ExecutionCalls, approval: Approval) -> ApprovalAnswer | None:
        if not calls.caller.is_local:
            return None  # the page, and the browser, are on the machine of somebody else
        features = calls.host.features
        if Feature.ELICITATION in features:  # its form asks the same
            return None
        shows_addresses = Feature.URL in features
        if not shows_addresses and self._config.settings.approvals.browser == "never":
            return None
        # Most runs of the product never need the libraries of the page.
        questions = await anyio.to_thread.run_sync(import_module, "codemode_server.features.pages.questions")
        try:
            async with questions.serving(approval.question) as opened:
                if shows_addresses:
                    return await self._by_host(calls, approval, opened)
                return await self._by_browser(opened)
        except OSError as error:
            logger.warning("the page of a question can't be served: %s", error)
            return None

    async def _by_host(self, calls: ExecutionCalls, approval: Approval, opened: OpenPage) -> ApprovalAnswer | None:
        """The answer on the page; a host whose user does not want to open it leaves the question to other channels."""
        async with anyio.create_task_group() as tasks:

            async def show() -> None:
                params = {
                    "mode": "url",
                    "message": create("question_text", approval),
                    "url": opened.address,
                    "elicitationId": secrets.token_hex(8),
                }
                try:
                    answer = await calls.host.ask(InputRequest("elicitation/create", params))
                except InputRefused as refusal:
                    logger.info("the host did not show the page of %s: %s", approval.approval_id, refusal)
                    answer = {}
                if answer.get("action") != "accept" and opened.answer is None:
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
