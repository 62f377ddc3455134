"""Runs the recognizer of names in free text in a thread, one search after the other.

A search waits until the models are loaded, and ends between two batches if the call that it is for is cancelled.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cached_property

import anyio
import anyio.from_thread
import anyio.to_thread

from codemode_server.privacy.findings import RecognizerFailed
from codemode_server.privacy.free_text import Span
from codemode_server.privacy.presidio_models import PresidioModels

logger = logging.getLogger(__name__)

_BATCH, _BATCH_CHARACTERS = 32, 8_000
"""Texts that are read together: short ones twice as fast as one by one, longer batches no faster. A search can be
ended after each, some 0.2 s."""


class NameRecognizer:
    """One set of models, loaded when `load` or the first search asks for them. Used on the event loop."""

    def __init__(self, models: tuple[str, ...]) -> None:
        self.models = models
        self._loaded: PresidioModels | None = None
        self._loading = threading.Lock()
        """For a thread that nobody waits for any more, and the next one."""

    @cached_property
    def _thread(self) -> anyio.CapacityLimiter:
        """For one thread, in which alone the models are used; belongs to the event loop that asks first."""
        return anyio.CapacityLimiter(1)

    async def load(self) -> None:
        """Load the models, so that the first search does not wait. Nobody who stops waiting is held up until a library
        has loaded them: the thread goes on alone.

        Raises:
            RecognizerFailed: they can't be loaded.
        """
        if self._loaded is None:
            await anyio.to_thread.run_sync(self._models, limiter=self._thread, abandon_on_cancel=True)

    async def persons_in(self, texts: Sequence[str]) -> list[list[Span]]:
        """The names of persons in each text.

        Raises:
            RecognizerFailed: one can't be searched.
        """
        if not texts:
            return []
        await self.load()
        return await anyio.to_thread.run_sync(self._persons_in, texts, limiter=self._thread)

    def _persons_in(self, texts: Sequence[str]) -> list[list[Span]]:
        models = self._models()
        found: dict[str, list[Span]] = {}
        for batch in _batches([*dict.fromkeys(texts)]):
            anyio.from_thread.check_cancelled()
            try:
                found.update(zip(batch, models.persons_in(batch), strict=True))
            except Exception as error:  # noqa: BLE001 - whatever fails there, the text is not searched
                # Neither the message nor the traceback is shown: they may have parts of the text.
                logger.warning("privacy.recognizer: the search for names failed: %s", type(error).__name__)
                raise RecognizerFailed(type(error).__name__) from None
        return [found[text] for text in texts]

    def _models(self) -> PresidioModels:
        with self._loading:
            if self._loaded is None:
                began = time.monotonic()
                try:
                    self._loaded = PresidioModels(self.models)
                except Exception as error:
                    logger.warning("privacy.recognizer: %s", error)
                    raise RecognizerFailed(str(error)) from error
                logger.info("loaded %s in %.1f s", ", ".join(self.models), time.monotonic() - began)
            return self._loaded


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if len(batch) == _BATCH or (batch and characters + len(text) > _BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch
