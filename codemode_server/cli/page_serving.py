"""Puts the pages together: the stores, the site and its listener."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from codemode_server.cli.page_products import PageProduct
from codemode_server.cli.token_reveals import TokenReveals
from codemode_server.cli.ui_records import StoredRecords
from codemode_server.cli.ui_servers import StoredServers
from codemode_server.cli.ui_tools import StoredToolStubs
from codemode_server.first_listing import state_folder
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.web import local_server
from codemode_server.web.ui.admission import Admission
from codemode_server.web.ui.one_time_codes import OneTimeCodes
from codemode_server.web.ui.site import UiSite


@asynccontextmanager
async def serving(product: PageProduct, codes: OneTimeCodes, port: int = 0) -> AsyncGenerator[str]:
    """Serve the pages to whom a code admits, until this is left; gives their origin.

    Raises:
        OSError: the port is taken.
        JournalUnavailable: the record can't be used.
    """
    folder = state_folder(product.loaded.settings)
    databases, thread = (Database(folder), Database(folder)), DatabaseThread(folder)
    definitions = Database(folder)
    try:
        async with anyio.create_task_group() as tasks:
            records = StoredRecords(product, databases, thread, tasks)
            servers = StoredServers(product, definitions, thread, tasks)

            def site_at(origin: str) -> UiSite:
                tools, tokens = StoredToolStubs(product), TokenReveals(product.loaded, thread)
                return UiSite(origin, records, servers, tools, tokens, Admission(codes))

            async with local_server.serving(site_at, port=port) as site:
                yield site.origin
            tasks.cancel_scope.cancel()
    finally:
        thread.close()
        for database in (*databases, definitions):
            database.close()
