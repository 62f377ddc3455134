"""Accepted definitions of tools of protected servers: no text stays in the clear."""

from __future__ import annotations

import zlib
from pathlib import Path

from codemode_server.domain.definitions import canonical_text
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.domain.tools import ToolDefinition
from codemode_server.features.changed_tools.sqlite_definitions import SqliteDefinitions
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.server_texts import ServerTexts, TokenCipher

TEXT = "Accounts of ann@example.org"


async def test_texts_are_encrypted_and_those_of_before_the_protection_are_deleted(tmp_path: Path) -> None:
    database, thread = Database(tmp_path), DatabaseThread(tmp_path)
    tools = earlier, later = [ToolDefinition(name, f"{TEXT} {name}", digest="d") for name in ("one", "two")]
    one, two = map(canonical_text, tools)
    principal = Principal(PrincipalId("ann"))
    texts = ServerTexts(TokenCipher(tmp_path))
    definitions = SqliteDefinitions(database, thread, texts)
    await definitions.take(principal, "crm", [earlier], accept_new=True, at=1.0)
    await definitions.take(principal, "git", [earlier], accept_new=True, at=1.0)
    texts.is_protected = lambda name: name == "crm"
    definitions.delete_plain()
    await definitions.take(principal, "crm", [later], accept_new=True, at=2.0)
    thread.close()  # once all is written
    assert [definitions.text(principal, "crm", name, "d") for name in ("one", "two")] == ["", two]
    assert definitions.text(principal, "git", "one", "d") == one, "control: a server without protection"
    assert [it.accepted_at for it in definitions.known(principal, "crm")] == [1.0, 2.0]
    with database.begin() as connection:
        rows = connection.exec_driver_sql("SELECT definition FROM tool_definitions WHERE server = 'crm'").fetchall()
    assert zlib.compress(two.encode(), 1) not in [data for (data,) in rows]
