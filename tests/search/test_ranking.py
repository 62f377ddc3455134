"""One order out of words and meaning: which of two tools that share most of their words is the one that is meant.

Vectors are of the static table, the one that every installation has.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any, ClassVar

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.search.documents import collections
from codemode_server.search.lexical import LexicalIndex
from codemode_server.search.ranking import rank
from codemode_server.search.static import StaticEncoder
from codemode_server.search.vectors import VectorIndex


def listing(server: str, about: str, **tools: str) -> UpstreamListing:
    definitions = tuple(ToolDefinition(name, description) for name, description in tools.items())
    return UpstreamListing(server, UpstreamState.READY, definitions, description=about)


def schema(action: dict[str, Any]) -> dict[str, Any]:
    return {"properties": {"action": action}, "$defs": {"Weight": {"enum": ["canary", "stable"]}}}


SERVERS = [
    listing(
        "vault",
        "Keys, secrets and certificates",
        key_list="List all keys in a key vault.",
        key_get="Get one key of a key vault, or its details.",
        key_create="Create a key in a key vault.",
        key_delete="Delete a key of a key vault.",
        certificate_list="List all certificates in a key vault.",
    ),
    listing(
        "chat",
        "Channels and messages of a team",
        post_message="Post a message to a channel.",
        list_channels="List the channels.",
        MySQLHistory="Old messages, from the MySQL archive.",
    ),
    listing(
        "maps", "Places and routes", directions="The way from one place to another.", forecast="Tomorrow's weather."
    ),
]
INDEX = LexicalIndex(collections(Catalog.build(SERVERS)))
STATIC = StaticEncoder()
STATIC.load()
VECTORS = VectorIndex(STATIC, INDEX)


def found(query: str, *, by_meaning: bool, limit: int = 3) -> list[str]:
    return [one.thing.name for one in rank(INDEX, VECTORS if by_meaning else None, query, None, limit)]


@pytest.mark.parametrize("by_meaning", [False, True], ids=["by words", "by meaning"])
class TestTheFirstResult:
    @pytest.mark.parametrize(
        ("query", "best"),
        [
            ("show me the keys in the vault", "key_list"),
            ("remove the old key from the key vault", "key_delete"),
            ("which certificates are in the key vault", "certificate_list"),
            ("keyvault key creation", "key_create"),
            ("psot a mesage to the chanel", "post_message"),
            ("mysql archive", "MySQLHistory"),
            ("key_get", "key_get"),
        ],
    )
    def test_is_what_is_meant(self, query: str, best: str, by_meaning: bool) -> None:
        assert found(query, by_meaning=by_meaning)[0] == best

    def test_of_several_wants_each_has_one_among_the_first(self, by_meaning: bool) -> None:
        query = "list all certificates in the vault, then post a message to the channel"
        assert set(found(query, by_meaning=by_meaning, limit=2)) == {"certificate_list", "post_message"}


class TestMeaning:
    def test_finds_what_no_word_says(self) -> None:
        query = "rain and sunshine"
        assert found(query, by_meaning=False) == []
        assert found(query, by_meaning=True)[0] == "forecast"


class TestWhereTheWordsAre:
    """Not only the name and the first sentence say what a tool does."""

    LONG = "Works on the account of the team. " * 60
    SERVERS: ClassVar = [
        listing("vault", "Keys", key_list="List all keys in a key vault.", key_get="Get one key."),
        UpstreamListing(
            "cloud",
            UpstreamState.READY,
            (
                ToolDefinition("deployment_list", "List the deployments."),
                ToolDefinition("deployment_get", "Get a deployment."),
                ToolDefinition("manage_deployment", "Changes one.", None, schema({"enum": ["restart", "scale"]})),
                ToolDefinition("manage_volume", "Changes one.", None, schema({"anyOf": [{"const": "snapshot"}, {}]})),
                ToolDefinition("manage_node", "Changes one.", None, schema({"items": {"enum": ["drain", "cordon"]}})),
                ToolDefinition("manage_route", "Changes one.", None, schema({"$ref": "#/$defs/Weight"})),
                ToolDefinition("usage", f"{LONG} " + "Gives a forecast for the next month. " * 4),
                ToolDefinition("album", "Look at an image of the gallery."),
                ToolDefinition("stub_service", "Create a mock of a service."),
            ),
        ),
    ]

    @pytest.mark.parametrize(
        ("query", "best"),
        [
            ("restart deployment", "manage_deployment"),
            ("snapshot of a volume", "manage_volume"),
            ("drain this node", "manage_node"),
            ("canary route", "manage_route"),
            ("forecast next month's bill", "usage"),
            ("show the photo", "album"),
            ("fake a backend", "stub_service"),
        ],
    )
    def test_enums_long_descriptions_and_words_near_in_meaning_are_found(self, query: str, best: str) -> None:
        index = LexicalIndex(collections(Catalog.build(self.SERVERS)))
        assert rank(index, VectorIndex(STATIC, index), query, None, 3)[0].thing.name == best


class TestWhatMayBeFound:
    def test_is_ranked_as_if_nothing_else_were_there(self) -> None:
        may_be = INDEX.segment_of == 0
        things = {one.thing.name for one in rank(INDEX, VECTORS, "post a message", may_be, 10)}
        assert things <= {thing.name for thing in INDEX.segments[0].collection.things}


def test_an_index_that_is_replaced_leaves_memory_at_once() -> None:
    """Without the garbage collector, which comes to large objects last: three copies of all vectors were kept."""
    gc.disable()
    try:
        index = LexicalIndex(collections(Catalog.build(SERVERS)))
        vectors = VectorIndex(STATIC, index)
        rank(index, vectors, "photo", None, 3)
        gone = [weakref.ref(it) for it in (index, vectors, vectors.near_words)]
        del index, vectors

        assert [it() for it in gone] == [None, None, None]
    finally:
        gc.enable()
