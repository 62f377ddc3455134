"""What is kept of an upstream between runs, and what makes it void."""

from __future__ import annotations

import pytest

from codemode_server.domain.tools import Effect, ToolDefinition
from codemode_server.settings import ServerSettings, ToolFilter
from codemode_server.upstreams.cache import CachedListing, fingerprint

LISTING = CachedListing(
    tools=(ToolDefinition("a", "does a", "A", {"type": "object"}, {"type": "array"}, Effect.READS),),
    description="A server.",
    protocol="2026-07-28",
    protocol_mode="legacy",
    server_version="2",
    problems=("tool 'b': …",),
    stored_at=1.5,
)


def test_a_listing_comes_back_from_its_json_as_it_was() -> None:
    assert CachedListing.from_json(LISTING.to_json()) == LISTING


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format":2}', '{"format":1,"tools":[{"name":"a","new":1}]}'])
def test_json_of_another_making_is_no_listing(text: str) -> None:
    """A later version's file must not stop an earlier one."""
    assert CachedListing.from_json(text) is None


def test_fingerprint_knows_names_of_secrets_but_not_their_values() -> None:
    def of(**changes: object) -> str:
        return fingerprint(ServerSettings.model_validate({"command": "x", "env": {"KEY": "1"}} | changes))

    assert of() == of(env={"KEY": "2"}) == of(tools=ToolFilter(exclude=("a",))) == of(timeout=1, protocol="legacy")
    assert len({of(), of(env={"OTHER": "1"}), of(args=("a",)), of(command="y"), of(cwd="/")}) == 5
