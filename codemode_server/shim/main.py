"""Serves a host over stdio by the person's running server."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from codemode_server.mcp_server.opening import FirstLists, HostStreams, Opening
from codemode_server.shim.attaching import Attached, Attaching, NotAttached
from codemode_server.shim.relay import Relay
from codemode_server.startup import first_lists

STANDALONE = "CODEMODE_STANDALONE"
"""Variable that has each host have a product of its own; `serve --standalone` does so too."""

_LOOK_SECONDS = 0.02
"""How often the lists are looked for that the server writes."""


def serve(arguments: Sequence[str]) -> int | None:
    """Serve the host of this process until it closes its input; gives the exit code. None if the arguments mean
    something else."""
    if sys.platform == "win32" or os.environ.get(STANDALONE, "") not in ("", "0"):
        return None
    match [it for it in arguments if it != "serve"]:
        case []:
            config = None
        case ["--config", str(file)]:
            config = Path(file)
        case _:
            return None
    if sys.stdin is None or sys.stdin.isatty():
        return None
    attaching = Attaching(config)
    start = _Start(config, attaching)
    opening = Opening(HostStreams.standard(), start)
    opening.run()
    try:
        attached = start.attached()
    except NotAttached as error:
        print(f"codemode-server: this host has a server of its own: {error}", file=sys.stderr)
        from codemode_server.startup import serve as standalone

        standalone.serve(config, None, opened=opening)
    if notice := attached.answer.get("notice"):
        print(f"codemode-server: {notice}", file=sys.stderr)
    Relay(*opening.streams(), attaching, attached).run()
    return 0


class _Start:
    """What the first requests need: the lists of the last run, or those that a server writes before it is loaded."""

    def __init__(self, config: Path | None, attaching: Attaching) -> None:
        self._config, self._attaching = config, attaching
        self._thread = threading.Thread(target=self._attach, daemon=True, name="attaching")
        self._found: Attached | NotAttached | None = None

    def lists(self) -> FirstLists | None:
        self._thread.start()
        while (lists := first_lists.stored(self._config)) is None and self._thread.is_alive():
            self._thread.join(_LOOK_SECONDS)
        return lists

    def load_server(self) -> None:
        self._thread.join()

    def attached(self) -> Attached:
        """The server, once the opening is over. Raises `NotAttached`."""
        if self._found is None:  # the first message was none that the opening answers
            self._attach()
        if isinstance(self._found, NotAttached):
            raise self._found
        assert self._found is not None  # noqa: S101
        return self._found

    def _attach(self) -> None:
        try:
            self._found = self._attaching.attach()
        except NotAttached as error:
            self._found = error
