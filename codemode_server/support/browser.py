"""The person's browser: opens an address in it without showing the address to other users of this machine."""

from __future__ import annotations

import html
import os
import sys
from pathlib import Path

from codemode_server.support import temporary

_PAGE = (
    '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>codemode-server</title>'
    '<meta http-equiv="refresh" content="0; url={address}"><p><a rel="noreferrer" href="{address}">{link}</a></p>'
)


class Browser:
    """Opens one address at a time. Blocks, so use it in a thread."""

    def __init__(self, link: str) -> None:
        """`link` is the text of the link, for browsers that do not follow the page by themselves."""
        self._link = link
        self._folder: Path | None = None

    def open(self, address: str) -> bool:
        """Open a private page that leads there, since all users can read the browser's command line; false without a
        browser."""
        import webbrowser

        if not _has_display():
            return False
        self.close()
        try:
            self._folder = temporary.make("page")
            page = self._folder / "open.html"
            with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(leading_page(address, self._link))
        except OSError:
            return False
        return webbrowser.open(page.as_uri())

    def close(self) -> None:
        if self._folder is not None:
            temporary.remove(self._folder)
            self._folder = None


def leading_page(address: str, link: str) -> str:
    return _PAGE.format(address=html.escape(address), link=html.escape(link))


def _has_display() -> bool:
    """True if a browser with windows can be had; one within the terminal would take it over."""
    return sys.platform in ("win32", "darwin") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
