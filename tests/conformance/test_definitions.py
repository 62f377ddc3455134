"""What every store of tools' definitions does."""

from __future__ import annotations

import zlib
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from sqlalchemy import select

from codemode_server.calls.audit import AuditEvent
from codemode_server.calls.policy.settings import PermissionSettings
from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import Settings
from codemode_server.domain.definitions import (
    MAX_ACCEPTED,
    MAX_WAITING,
    KnownDefinition,
    canonical_text,
    digest_of,
)
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.domain.tools import ToolDefinition
from codemode_server.features.changed_tools.definition_store import DefinitionStore
from codemode_server.features.changed_tools.tool_definitions import ToolDefinitions
from codemode_server.features.changed_tools.visible_listings import SeenListings
from codemode_server.storage.database import Database, DatabasePlace
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sealed_texts import SealedTexts
from codemode_server.storage.tables import tool_definitions
from codemode_server.upstreams.cache import CachedListing

LOCAL = Principal(PrincipalId("default"))
SOMEBODY = Principal(PrincipalId("somebody"))
TO = {"type": "object", "properties": {"to": {"type": "string"}}}
SEND = ToolDefinition("send", "Send a mail.", input_schema=TO)


@pytest.fixture
def store(database: Database, thread: DatabaseThread, tmp_path: Path) -> DefinitionStore:
    return DefinitionStore(database, thread, SealedTexts(JournalCipher(tmp_path)))


async def take(
    store: DefinitionStore, *tools: ToolDefinition, at: float = 1.0, server: str = "post", **more: Any
) -> dict[tuple[str, bool], str]:
    """Take a listing; gives what each tool is a change of, by name and whether it is accepted."""
    values: dict[str, Any] = {"accept_new": True, **more}
    found = await store.take(LOCAL, server, tools, at=at, **values)
    return {(it.tool, it.is_accepted): it.former for it in found}


def described(text: str, name: str = "send") -> ToolDefinition:
    return ToolDefinition(name, text, input_schema=TO)


async def waiting(store: DefinitionStore) -> list[KnownDefinition]:
    return [it for it in store.known(LOCAL) if not it.is_accepted]


async def test_the_first_listing_of_a_server_is_accepted_as_it_is(store: DefinitionStore) -> None:
    assert await take(store, SEND) == {("send", True): ""}


async def test_a_changed_tool_waits_beside_the_accepted_definition(store: DefinitionStore) -> None:
    await take(store, SEND)
    assert await take(store, described("Send all mails.")) == {("send", True): "", ("send", False): "send"}


async def test_a_tool_that_returns_to_its_accepted_definition_adds_nothing(store: DefinitionStore) -> None:
    await take(store, SEND)
    assert await take(store, SEND, at=2.0) == {("send", True): ""}


async def test_a_new_tool_is_accepted_or_waits_as_the_caller_says(store: DefinitionStore) -> None:
    await take(store, SEND)
    assert (await take(store, SEND, described("Read.", "read"), accept_new=True))["read", True] == ""
    other = ToolDefinition("count", "Count.")
    assert (await take(store, SEND, other, accept_new=False))["count", False] == ""
    assert (await take(store, SEND, other, accept_new=True))["count", True] == "", "once the file allows it"


@pytest.mark.parametrize("renamed", [described("Send a mail.", "post"), described("Something else.", "post")])
async def test_a_tool_with_the_description_or_the_parameters_of_one_that_is_gone_was_renamed(
    store: DefinitionStore, renamed: ToolDefinition
) -> None:
    await take(store, SEND)
    assert (await take(store, renamed))["post", False] == "send"


async def test_a_tool_like_one_that_is_still_there_is_new(store: DefinitionStore) -> None:
    """The control of renaming."""
    await take(store, SEND)
    assert (await take(store, SEND, described("Send a mail.", "post")))["post", True] == ""


async def test_an_accepted_definition_stays_accepted(store: DefinitionStore) -> None:
    await take(store, SEND)
    await take(store, described("Send all mails."))
    (changed,) = await waiting(store)
    assert await store.accept(LOCAL, changed, at=2.0)
    assert await waiting(store) == []
    assert len(store.known(LOCAL, "post")) == 2, "it may return to the first one"


async def test_what_is_not_known_can_t_be_accepted(store: DefinitionStore) -> None:
    assert not await store.accept(LOCAL, KnownDefinition("post", "send", "0", "", 1.0, None), at=2.0)


async def test_the_text_of_a_definition_is_read_back(store: DefinitionStore) -> None:
    await take(store, SEND)
    text = canonical_text(SEND)
    assert store.text(LOCAL, "post", "send", digest_of(text)) == text
    assert store.text(LOCAL, "post", "send", "0") == ""
    with store._database.begin(reads=True) as connection:
        stored = connection.execute(select(tool_definitions.c.definition)).scalar_one()
    assert zlib.compress(text.encode(), 1)[2:] not in stored, "it may name persons"


async def test_a_text_without_the_key_is_an_error_and_not_an_empty_definition(
    store: DefinitionStore, database: Database, thread: DatabaseThread, tmp_path: Path
) -> None:
    """The person would accept a change that no review shows."""
    await take(store, SEND)
    digest = digest_of(canonical_text(SEND))
    without = DefinitionStore(database, thread, SealedTexts(JournalCipher(tmp_path, "${keyring:codemode-key}")))
    with pytest.raises(JournalUnavailable, match="a reference that only the server resolves"):
        without.text(LOCAL, "post", "send", digest)
    assert store.text(LOCAL, "post", "send", digest), "the control"


async def test_principals_and_servers_are_apart(store: DefinitionStore) -> None:
    await take(store, SEND)
    assert await take(store, described("Send all mails."), server="other") == {("send", True): ""}
    assert store.known(SOMEBODY) == []
    assert store.text(SOMEBODY, "post", "send", digest_of(canonical_text(SEND))) == ""


async def test_the_oldest_definitions_of_a_tool_are_forgotten(store: DefinitionStore) -> None:
    await take(store, SEND)
    for number in range(MAX_WAITING + 2):
        await take(store, described(f"Version {number}."), at=2.0 + number)
    assert [it.seen_at for it in await waiting(store)] == [float(4 + number) for number in range(MAX_WAITING)]


async def test_the_oldest_accepted_definitions_of_a_tool_are_forgotten(store: DefinitionStore) -> None:
    await take(store, SEND)
    for number in range(MAX_ACCEPTED):
        await take(store, described(f"Version {number}."), at=2.0 + number)
        (changed,) = await waiting(store)
        await store.accept(LOCAL, changed, at=2.0 + number)
    accepted = store.known(LOCAL, "post")
    assert (len(accepted), accepted[0].seen_at) == (MAX_ACCEPTED, 2.0)


async def test_of_two_first_listings_at_once_only_one_is_accepted(
    store: DefinitionStore, place: DatabasePlace, database: Database, tmp_path: Path
) -> None:
    """In two processes."""
    other = DatabaseThread(place)
    others = DefinitionStore(database, other, SealedTexts(JournalCipher(tmp_path)))
    for number in range(20):
        async with anyio.create_task_group() as tasks:
            for one in (store, others):
                tasks.start_soon(partial(take, one, described(f"Send {one is store}."), server=str(number)))
        accepted = [it.is_accepted for it in store.known(LOCAL, str(number))]
        assert sorted(accepted) == [False, True]
    other.close()


class _Audited(list[AuditEvent]):
    """An audit, and a cache of listings that stores none."""

    async def put(self, *_: object) -> None:
        """Nothing is read again."""


async def test_a_server_that_changes_without_end_does_not_fill_the_audit(store: DefinitionStore) -> None:
    """Rows beyond the audit's limit push out those before them, which say what the server was asked to do."""
    audited = _Audited()
    seen = SeenListings(cast("Any", audited), ToolDefinitions(store, LiveConfig()), cast("Any", audited))
    for version in range(8):
        tools = [ToolDefinition(f"tool{n}", f"Version {version}.", digest=f"{version}-{n}") for n in range(100)]
        await seen.put("mail", "", CachedListing(tuple(tools)))
    assert len(audited) == 200


async def test_a_new_tool_is_accepted_as_configured_while_the_store_cannot_be_used(
    store: DefinitionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be refused as changed until the next change, and no review would list it."""
    definitions = ToolDefinitions(store, LiveConfig(Settings(permissions=PermissionSettings(default="deny"))))
    known, changed, new = (ToolDefinition(*it[:2], digest=it[2]) for it in LISTED)
    await definitions.take("mail", [known])

    async def fail(*_: object, **__: object) -> list[KnownDefinition]:
        raise JournalUnavailable("database is locked")

    monkeypatch.setattr(store, "take", fail)
    await definitions.take("mail", [changed, new])
    assert definitions.refusal("mail", changed) is not None, "control"
    assert definitions.refusal("mail", new) is None


LISTED = (("send", "Send a mail.", "a"), ("send", "Send a mail to eve.", "b"), ("search", "Find mails.", "c"))
