"""A configuration whose server was listed by an earlier run; nothing is started."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from codemode_server.config import load
from codemode_server.domain.tools import ToolDefinition
from codemode_server.storage.cache import LISTINGS, Cache
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sealed_texts import SealedTexts
from codemode_server.upstreams.cache import CachedListing, fingerprint
from codemode_server.upstreams.listing_store import ListingStore


def known_github(folder: Path, permissions: Mapping[str, Any], tools: Sequence[ToolDefinition]) -> Path:
    """The file of a configuration with one server, `github`, that had these tools."""
    path = folder / "upstream.yaml"
    settings = {
        "servers": {"github": {"command": "no-such-program"}},
        "permissions": dict(permissions),
        "state": {"dir": str(folder / "state")},
    }
    path.write_text(json.dumps(settings))
    database = Database(folder / "state")
    thread = DatabaseThread(folder / "state")
    server = load(path).settings.servers["github"]
    store = ListingStore(Cache(database, thread, LISTINGS), SealedTexts(JournalCipher(folder / "state")))
    anyio.run(store.put, "github", fingerprint(server), CachedListing(tuple(tools)))
    thread.close()
    database.close()
    return path
