"""Serves the pages: those of a running product, which the command `ui` finds, or those of the command itself.

Each product has a locked folder in the state folder with a private file: the origin, and the key that codes are made
with. The file is no address: a code that `ui` makes admits one browser, once. The lock tells a product that was killed
from one that runs. Nothing of this is in a log or on stderr, which some hosts show to the model.
"""

from __future__ import annotations

import logging
import os
import secrets
import shlex
import stat
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import httpx2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from codemode_server.config import LoadedSettings
from codemode_server.config.live import local_principal
from codemode_server.first_listing import state_folder
from codemode_server.private_files import NotPrivate, open_private, private_folder, private_subfolder, replace_private
from codemode_server.processes.run_folder import RunFolder, abandoned
from codemode_server.records.executions import Records
from codemode_server.records.token_reveals import TokenReveals
from codemode_server.text import escaped
from codemode_server.web import server
from codemode_server.web.admission import ENTRANCE, KEY_BYTES, OneTimeCodes, new_code
from codemode_server.web.page_products import PageProduct
from codemode_server.web.record_pages import RecordPages
from codemode_server.web.server_pages import ServerPages
from codemode_server.web.site import Site

if TYPE_CHECKING:
    from codemode_server.app import App

logger = logging.getLogger(__name__)

MAX_AGE_S = 600.0
"""How long a code is good."""
_FOLDER, _FILE = "pages", "access.json"
_MAX_FILE_BYTES = 16 * 2**10
_OTHERS = 0o077
_LOOK_S = 0.3
_ANSWER_S = 5.0


@asynccontextmanager
async def serving(product: PageProduct, codes: OneTimeCodes, port: int = 0) -> AsyncGenerator[str]:
    """Serve the pages to whom a code admits, until this is left; gives their origin.

    Raises:
        OSError: the port is taken.
        JournalUnavailable: the record can't be used.
    """
    records = Records(product.loaded, product.config)
    try:
        async with anyio.create_task_group() as tasks:
            site = Site(records, codes)
            RecordPages(site, records, TokenReveals(product.loaded, records.thread), product, tasks)
            ServerPages(site, records, product, tasks)
            async with server.serving(site.app, port=port) as origin:
                yield origin
            tasks.cancel_scope.cancel()
    finally:
        records.close()


class _Access(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    origin: str = Field(pattern=r"^http://127\.0\.0\.1:[0-9]{1,5}$")
    key: str = Field(pattern=rf"^[0-9a-f]{{{2 * KEY_BYTES}}}$", repr=False)
    principal: str
    config: str | None
    started_at: float


@dataclass(frozen=True, slots=True)
class ServedPages:
    """The pages of one running product."""

    access: _Access

    def new_address(self) -> str:
        """Admits one browser."""
        code = new_code(bytes.fromhex(self.access.key), time.time())
        return f"{self.access.origin}{ENTRANCE}{code}"

    async def is_open(self, address: str) -> bool:
        """True if a browser would be admitted by this address now."""
        try:
            async with httpx2.AsyncClient(timeout=_ANSWER_S, trust_env=False) as client:
                return (await client.head(address)).status_code == 204
        except httpx2.HTTPError:
            return False

    async def wait_opened(self, address: str) -> None:
        """Wait until a browser was admitted, or can't be any more."""
        while await self.is_open(address):  # noqa: ASYNC110 - another process knows
            await anyio.sleep(_LOOK_S)


async def serve(app: App) -> None:
    """Serve the pages of a product until cancelled, if its configuration says so; what prevents it is logged."""
    settings, key = app.config.settings.pages, secrets.token_bytes(KEY_BYTES)
    try:
        codes = OneTimeCodes(key, max_age_s=MAX_AGE_S)
        async with serving(PageProduct(app.loaded, app), codes, settings.port or 0) as origin:
            folder = await anyio.to_thread.run_sync(_written, app.loaded, origin, key)
            logger.info("the pages are served; `codemode-server ui` opens them")
            try:
                await anyio.sleep_forever()
            finally:
                folder.remove()
    except* OSError as errors:
        reason = getattr(errors.exceptions[0], "strerror", None) or errors.exceptions[0]
        logger.warning(
            "the pages are not served on port %s (%s); `codemode-server ui` serves them itself. Products that run at "
            "the same time need ports of their own (pages.port)",
            settings.port or "of their own",
            reason,
        )
    except* Exception:
        logger.exception("the pages are served no more")  # a page must not end the product


def _written(loaded: LoadedSettings, origin: str, key: bytes) -> RunFolder:
    """Say where the pages are, in a folder that this process has locked."""
    state = private_folder(state_folder(loaded.settings), "state.dir in upstream.yaml", is_readable=True)
    folder = RunFolder.make(private_subfolder(state, _FOLDER))
    principal, config = _whose(loaded)
    access = _Access(origin=origin, key=key.hex(), principal=principal, config=config, started_at=time.time())
    replace_private(folder.path / _FILE, access.model_dump_json().encode())
    return folder


def _whose(loaded: LoadedSettings) -> tuple[str, str | None]:
    """Principal and configuration, by which `ui` knows the pages of its own product."""
    config = None if loaded.place is None else os.path.realpath(loaded.place.path)
    return local_principal(loaded.settings).principal_id, config


async def found(loaded: LoadedSettings, tell: Callable[[str], None]) -> ServedPages | None:
    """The pages of a running product with this configuration, the one that started last; `tell` gets lines for the
    person."""
    every = await anyio.to_thread.run_sync(partial(_all, loaded, tell))
    for it in sorted(every, key=lambda it: it.access.started_at, reverse=True):
        if await it.is_open(it.new_address()):
            return it
    return None


def _all(loaded: LoadedSettings, tell: Callable[[str], None]) -> list[ServedPages]:
    folder = state_folder(loaded.settings) / _FOLDER
    if not folder.is_dir():
        return []
    for left in abandoned(folder):
        left.remove()
    accesses = [access for path in sorted(folder.iterdir()) if (access := _read(path / _FILE, tell)) is not None]
    return [ServedPages(it) for it in accesses if (it.principal, it.config) == _whose(loaded)]


def _read(path: Path, tell: Callable[[str], None]) -> _Access | None:
    """None if the file can't be used; one that others could read may have told them the key."""
    shown = escaped(str(path))
    try:
        if sys.platform != "win32" and stat.S_IMODE(path.lstat().st_mode) & _OTHERS:
            tell(f"{shown} can be read by others, so the pages of that product are not used; start it again")
            return None
        with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
            return _Access.model_validate_json(file.read(_MAX_FILE_BYTES))
    except FileNotFoundError:
        return None  # that product has just begun, or ended
    except NotPrivate as error:
        tell(str(error))
    except (OSError, ValidationError) as error:
        tell(f"{shown} can't be used: {type(error).__name__}; remove {shlex.quote(str(path.parent))}")
    return None
