"""What features do around executions: the hooks that a layer has, and the chain of them all.

`startup/execution_layers.py` lists the layers in order; what stands first is outermost. Layers are context managers and
not wrapped calls: a program wakes up its task for each frame, and each nested call would be resumed as often.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import anyio

from codemode_server.executions.execution import Execution
from codemode_server.sandbox.contract import Outcome
from codemode_server.support.own_methods import own_methods

logger = logging.getLogger(__name__)

CLEAN_UP_SECONDS = 30.0
"""How long what comes after a program may take; the next program of its session waits for it."""


class ExecutionLayer:
    """One concern of executions. A hook that a layer does not have costs an execution nothing."""

    def is_for(self, execution: Execution) -> bool:
        """True if the execution passes the layer; by default if it is a program."""
        return execution.direct_call is None

    def around(self, execution: Execution) -> AbstractAsyncContextManager[None]:
        """Around all of it: begins before it waits for its turn, and ends once its end is recorded, before its host is
        answered. The ending is not cancelled, up to `CLEAN_UP_SECONDS`."""
        raise NotImplementedError

    async def prepare(self, execution: Execution) -> Outcome | None:
        """Before its start is recorded: may change its code. Gives the outcome of one that is not to run."""

    def around_run(self, execution: Execution) -> AbstractAsyncContextManager[None]:
        """Around its run; after that, may change `execution.outcome`."""
        raise NotImplementedError

    async def take_text(self, execution: Execution, text: str) -> str:
        """The text of a skill that the program imports, as it gets it. Raises `MetaToolError` if it may not."""
        return text

    async def after(self, execution: Execution) -> None:
        """A moment after its end, so that its answer is sent first. What is done here is lost with a product that is
        killed, and cancelled after `CLEAN_UP_SECONDS`."""


class ExecutionLayers:
    """The layers of one product, the outermost first."""

    def __init__(self, layers: Sequence[ExecutionLayer] = ()) -> None:
        self._around, self._prepare, self._around_run, self._take_text, self._after = (
            [it for it in layers if hook in own_methods(it, ExecutionLayer)]
            for hook in ("around", "prepare", "around_run", "take_text", "after")
        )

    async def around(self, execution: Execution, stack: AsyncExitStack) -> None:
        for it in _passed(self._around, execution):
            await stack.enter_async_context(it.around(execution))

    async def prepare(self, execution: Execution) -> Outcome | None:
        """The outcome of the first layer that does not let it run."""
        for it in _passed(self._prepare, execution):
            if (outcome := await it.prepare(execution)) is not None:
                return outcome
        return None

    async def around_run(self, execution: Execution, stack: AsyncExitStack) -> None:
        for it in _passed(self._around_run, execution):
            await stack.enter_async_context(it.around_run(execution))

    async def take_text(self, execution: Execution, text: str) -> str:
        for it in _passed(self._take_text, execution):
            text = await it.take_text(execution, text)
        return text

    async def after(self, execution: Execution) -> None:
        """Each does its part, whatever another one does."""
        for it in _passed(self._after, execution):
            try:
                with anyio.fail_after(CLEAN_UP_SECONDS):
                    await it.after(execution)
            except Exception:
                logger.exception("what follows execution %s failed", execution.execution_id)


def _passed(layers: Sequence[ExecutionLayer], execution: Execution) -> list[ExecutionLayer]:
    return [it for it in layers if it.is_for(execution)]
