"""How a listing of a protected server is shown: URIs with personal data have other ones in their place, which stay as
they are whatever else is listed, and which no listed URI is."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

import pytest

from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import Settings
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.resources import ResourceDefinition
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.features.privacy.protected_listings import ProtectedListings

Fingerprint = Callable[[bytes, str], bytes]
ANN, BOB, EVE = (f"crm://c/{name}@example.org" for name in ("ann.lee", "bob.ray", "eve.low"))


def of_key(data: bytes, purpose: str) -> bytes:
    return hmac.digest(b"a key", purpose.encode() + b"\0" + data, "sha256")


def unusable(data: bytes, purpose: str) -> bytes:
    raise JournalUnavailable("the key can't be read")


def listings(fingerprint: Fingerprint = of_key) -> ProtectedListings:
    settings = Settings.model_validate({"privacy": {"servers": {"crm": "tokens"}}})
    return ProtectedListings(LiveConfig(settings), fingerprint)


def shown(*uris: str, of: ProtectedListings) -> dict[str, str]:
    """URIs → how they are shown."""
    listing = UpstreamListing("crm", UpstreamState.READY, resources=tuple(ResourceDefinition(it, "") for it in uris))
    (protected,) = of.within([listing])
    return {it.uri: it.public_uri for it in protected.resources}


def test_a_key_that_cannot_be_used_leaves_the_listing_readable() -> None:
    crm = listings(unusable)
    assert shown(ANN, BOB, of=crm)[ANN] == shown(ANN, of=crm)[ANN]
    assert "ann.lee" not in shown(ANN, of=crm)[ANN]


@pytest.mark.parametrize("names", [("ann.lee@example.org",), ("ann.lee@example.org", "bob.ray@example.org")])
def test_a_schema_with_properties_that_are_addresses_loses_none(names: tuple[str, ...]) -> None:
    """Two names that are shown alike must not become one."""
    properties: dict[str, Any] = {it: {"type": "string", "default": it, "title": f"Of {it}"} for it in names}
    tool = ToolDefinition("get", input_schema={"type": "object", "properties": properties})
    (protected,) = listings().within([UpstreamListing("crm", UpstreamState.READY, (tool,))])
    (made,) = protected.tools
    assert [*made.input_schema["properties"]] == ["<EMAIL>", "<EMAIL> (2)"][: len(names)]
    assert [*made.input_schema["properties"].values()] == [{"type": "string", "title": "Of <EMAIL>"}] * len(names)
