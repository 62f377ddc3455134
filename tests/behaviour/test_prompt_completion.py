"""The prompt's server completes arguments while the person types, through real clients and servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import Completion, PromptReference

from tests.fork_server import small_upstream

from .product import UPSTREAMS, Host, configuration, in_memory

PLAN = "completing/plan"


def completing(folder: Path, way: object) -> dict[str, Any]:
    told = way if isinstance(way, str) else json.dumps(way)
    return {"completing": small_upstream(UPSTREAMS / "completing.py", str(folder / "completing.log"), told)}


async def complete(host: Host, prompt: str, name: str, value: str, known: dict[str, str] | None = None) -> Completion:
    argument = {"name": name, "value": value}
    return (await host.client.complete(PromptReference(name=prompt), argument, known)).completion


def asked(folder: Path) -> list[Any]:
    log = folder / "completing.log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


async def test_the_server_gets_its_own_name_of_the_prompt_and_the_other_arguments(tmp_path: Path) -> None:
    server = completing(tmp_path, {"values": ["Grand"], "total": 7, "hasMore": True})
    async with in_memory(configuration(tmp_path, server)) as host:
        found = await complete(host, PLAN, "hotel", "G", {"city": "Oslo"})
    assert (found.values, found.total, found.has_more) == (["Grand"], 7, True)
    (request,) = asked(tmp_path)
    assert request["ref"] == {"type": "ref/prompt", "name": "plan"}
    assert request["argument"] == {"name": "hotel", "value": "G"}
    assert request["context"] == {"arguments": {"city": "Oslo"}}


async def test_a_prompt_that_the_person_is_asked_about_is_not_completed_and_a_denied_one_is_not_there(
    tmp_path: Path,
) -> None:
    for rule in ("ask", "deny"):
        rules = {"rules": [{rule: "completing/prompts/plan"}]}
        server = completing(tmp_path, {"values": ["Oslo"]})
        async with in_memory(configuration(tmp_path, server, permissions=rules)) as host:
            if rule == "ask":
                assert (await complete(host, PLAN, "city", "O")).values == []
            else:
                with pytest.raises(MCPError, match="there is no prompt"):
                    await complete(host, PLAN, "city", "O")
    assert asked(tmp_path) == []
