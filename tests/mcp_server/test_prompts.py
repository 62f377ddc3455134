"""Which prompts a host is offered when servers have more than a person's menu takes."""

from __future__ import annotations

from collections import Counter

from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.resources import PromptDefinition
from codemode_server.domain.tools import UpstreamListing, UpstreamState
from codemode_server.features.prompts.prompts import MAX_PROMPTS, prompt_definitions
from codemode_server.support.redaction import Redactor


def offered(**counts: int) -> Counter[str]:
    """Prompts offered of each server, for servers with so many."""
    catalog = Catalog.build(
        [
            UpstreamListing(name, UpstreamState.READY, prompts=tuple(PromptDefinition(f"p{n}") for n in range(count)))
            for name, count in counts.items()
        ]
    )
    shown = prompt_definitions(catalog, Redactor([]))
    return Counter(str(each["name"]).partition("/")[0] for each in shown)


def test_all_are_offered_where_there_is_room() -> None:
    assert offered(one=150, other=50) == {"one": 150, "other": 50}


def test_a_server_with_many_leaves_room_for_the_prompts_of_others() -> None:
    assert offered(many=400, few=3, some=20) == {"many": MAX_PROMPTS - 23, "few": 3, "some": 20}


def test_servers_with_many_have_equal_shares() -> None:
    assert offered(one=400, other=300) == {"one": 100, "other": 100}
