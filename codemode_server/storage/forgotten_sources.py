"""A file beside the database that says whose sources the person has forgotten, and when.

Running products hold sources in memory. They look whether the file has changed before they add a source or decide by
one, which costs less than a query; so nothing that is read after a product has noticed is forgotten with the rest.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable
from pathlib import Path

from codemode_server.domain.flows import Holder
from codemode_server.domain.ids import PrincipalId
from codemode_server.file_stamps import FileStamp
from codemode_server.private_files import replace_private

logger = logging.getLogger(__name__)

FILE = "forgotten-sources.json"
_MAX_ENTRIES = 1_000


class ForgottenSources:
    """As one process sees the file."""

    def __init__(self, folder: Path) -> None:
        """What is in it already counts as noticed."""
        self._path = folder / FILE
        self._identity = self._identity_now()
        self._times = self._read()

    def take(self) -> list[Holder]:
        """Those whose sources were forgotten since this was asked last."""
        if (identity := self._identity_now()) == self._identity:
            return []
        before, self._times = self._times, self._read()
        self._identity = identity
        return [holder for holder, at in self._times.items() if before.get(holder) != at]

    def note(self, holders: Iterable[Holder]) -> None:
        """Have every product forget these.

        Raises:
            OSError: the file can't be written.
        """
        times = self._read() | dict.fromkeys(holders, time.time())
        newest = sorted(times.items(), key=lambda it: it[1])[-_MAX_ENTRIES:]
        replace_private(self._path, json.dumps([[*holder, at] for holder, at in newest]).encode())

    def _identity_now(self) -> FileStamp | None:
        try:
            found = os.stat(self._path)  # noqa: PTH116  (asked at each call; a Path costs as much again)
        except OSError:
            return None
        return FileStamp.of(found)

    def _read(self) -> dict[Holder, float]:
        try:
            rows = json.loads(self._path.read_bytes())
            return {(PrincipalId(principal), holder): float(at) for principal, holder, at in rows}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError) as error:
            logger.warning("nothing is forgotten of what sessions have read: %s", error)
            return {}
