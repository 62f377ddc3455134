"""Serves the pages of `codemode-server ui`. They start no server and no program."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from codemode_server.config import LoadedSettings
from codemode_server.features.pages import server
from codemode_server.features.pages.record_pages import RecordPages
from codemode_server.features.pages.server_pages import ServerPages
from codemode_server.features.pages.site import ENTRANCE, Admission, Site
from codemode_server.features.privacy.token_reveals import TokenReveals
from codemode_server.records.executions import Records


@asynccontextmanager
async def serving(loaded: LoadedSettings, port: int = 0) -> AsyncGenerator[str]:
    """Serve the pages until this is left; gives the address that admits one browser. Raises `OSError`: the port is
    taken; `JournalUnavailable`: the record can't be used."""
    records, admission = Records(loaded), Admission()
    try:
        site = Site(records, admission)
        RecordPages(site, records, TokenReveals(loaded, records.thread))
        ServerPages(site, records)
        async with server.serving(site.app, port=port) as origin:
            yield f"{origin}{ENTRANCE}{admission.code}"
    finally:
        records.close()
