"""Accepted definitions of tools of protected servers: what was stored before is encrypted, and never lost for it."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from codemode_server.domain.definitions import ListedDefinition
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.sqlite_definitions import SqliteDefinitions
from codemode_server.storage.sqlite_tokens import TokenCipher

TEXT = "Accounts of ann@example.org"


class WithoutKey(TokenCipher):
    """Stands for a key that can't be read for once."""

    def encrypt(self, data: bytes, place: str) -> bytes:
        raise JournalUnavailable("privacy.key can't be read")


@pytest.mark.parametrize("has_key", [True, False])
async def test_a_stored_definition_is_encrypted_if_the_key_can_be_read_and_else_stays(
    tmp_path: Path, has_key: bool
) -> None:
    database, thread = Database(tmp_path), DatabaseThread(tmp_path)
    listed = ListedDefinition(tool="get", digest="d", text=TEXT)
    principal = Principal(PrincipalId("ann"))
    await SqliteDefinitions(database, thread).take(principal, "crm", [listed], accept_new=True, at=1.0)
    cipher = TokenCipher(tmp_path) if has_key else WithoutKey(tmp_path)
    SqliteDefinitions(database, thread, cipher).protect(lambda _: True)
    thread.close()  # once all is written
    with database.use() as connection:
        ((stored,),) = connection.execute("SELECT definition FROM tool_definitions").fetchall()
    assert (stored == zlib.compress(TEXT.encode(), 1)) is not has_key
    assert SqliteDefinitions(database, thread, TokenCipher(tmp_path)).text(principal, "crm", "get", "d") == TEXT
