"""Learned types of tools with private data are not shown while free text is forbidden, and are again after an edit."""

from __future__ import annotations

from typing import Any

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.observed import observe
from codemode_server.config.live import LiveConfig
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.gateway.policy.private_types import PrivateTypes
from codemode_server.redaction import NO_SECRETS
from codemode_server.settings import Settings

LEARNED = observe((), {}, {"Annabel": 1}, "json")
TOOLS = ("get_patient", "get_weather")


def settings(mode: str) -> Settings:
    server: dict[str, Any] = {"command": "x", "labels": {"get_patient": ["private"], "*": []}}
    return Settings.model_validate({"servers": {"clinic": server}, "privacy": {"private_free_text": mode}})


def catalog() -> Catalog:
    tools = tuple(ToolDefinition(name, input_schema={"type": "object"}) for name in TOOLS)
    listing = UpstreamListing("clinic", UpstreamState.READY, tools=tools)
    return Catalog.build([listing], observed=lambda _server, _definition: LEARNED)


def shown(types: PrivateTypes, of: Catalog) -> list[str]:
    """The tools whose stubs have the learned key."""
    return [it.name for server in types.without(of).servers for it in server.tools if "Annabel" in it.stub.source]


def test_only_tools_with_private_data_lose_their_learned_types() -> None:
    assert shown(PrivateTypes(LiveConfig(settings("forbid"))), catalog()) == ["get_weather"]


def test_where_free_text_is_allowed_the_catalog_stays_as_it_is() -> None:
    whole = catalog()
    assert PrivateTypes(LiveConfig(settings("allow"))).without(whole) is whole


def test_an_edit_takes_the_types_away_and_gives_them_back() -> None:
    config, whole = LiveConfig(settings("allow")), catalog()
    types = PrivateTypes(config)
    assert shown(types, whole) == [*TOOLS]
    config.replace(settings("forbid"), NO_SECRETS)
    assert shown(types, whole) == ["get_weather"]
    config.replace(settings("allow"), NO_SECRETS)
    assert shown(types, whole) == [*TOOLS]


def test_what_was_computed_of_a_server_is_computed_once() -> None:
    types, whole = PrivateTypes(LiveConfig(settings("forbid"))), catalog()
    assert types.without(whole).servers[0] is types.without(whole).servers[0]
