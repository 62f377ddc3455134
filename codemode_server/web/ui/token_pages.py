"""The page of one privacy token. Only its form shows the value: no address, link or fetched page has it."""

from __future__ import annotations

from typing import Protocol

from starlette.responses import Response

from codemode_server.domain.privacy_tokens import KnownToken
from codemode_server.web.ui.server_pages import ShowPage


class TokenRecords(Protocol):
    """The privacy tokens of the person whose pages these are. Every method raises a `CodemodeError` if the record can't
    be used."""

    async def known_in(self, text: str) -> list[str]:
        """The tokens in a text that stand for something."""

    async def find(self, token: str) -> KnownToken:
        """Raises a `CodemodeError` too if it stands for nothing (any more)."""

    async def reveal(self, token: str) -> KnownToken:
        """As `find`; the audit says before this returns that the person is shown the value."""


class TokenPages:
    """What the site has below `privacy`."""

    def __init__(self, records: TokenRecords, page: ShowPage) -> None:
        self._records = records
        self._page = page

    async def shown(self, name: str) -> Response:
        return await self._token_page(await self._records.find(f"<{name}>"))

    async def revealed(self, name: str) -> Response:
        """The answer to the form, which the site has checked; a redirect would need an address that shows the value."""
        found = await self._records.reveal(f"<{name}>")
        return await self._token_page(found, value=found.original)

    async def _token_page(self, found: KnownToken, value: str | None = None) -> Response:
        return await self._page("token", "executions", None, found=found, name=found.token[1:-1], value=value)
