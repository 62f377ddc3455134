"""Prompts of upstreams as prompts of ours, through the real product and real clients of both eras."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.attacks.kit import recorded
from tests.behaviour.product import Host, asked_of, configuration, in_memory, library
from tests.behaviour.test_resources import PUT, shelf


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_prompts_are_listed_with_the_servers_name_and_got_with_arguments(tmp_path: Path, protocol: str) -> None:
    async with in_memory(configuration(tmp_path, library(tmp_path, protocol=protocol))) as host:
        listed = (await host.client.list_prompts()).prompts
        got = await host.client.get_prompt("library/summarise", {"title": "Dune"})
    assert [(it.name, it.title) for it in listed] == [
        ("library/summarise", "library: Summary of a book"),
        ("library/illustrated", None),
    ]
    assert (listed[0].description or "").startswith("[library] Ask for a summary.")
    assert [(it.name, it.required) for it in listed[0].arguments or []] == [("title", True), ("style", False)]
    assert [(it.role, getattr(it.content, "text", "")) for it in got.messages] == [
        ("user", "Summarise Dune in a short way.")
    ]
    assert recorded(tmp_path) == [("library", "prompts/summarise", "allow", "succeeded")]


async def test_nobody_is_told_of_a_denied_prompt_nor_is_it_asked_for(tmp_path: Path) -> None:
    """The other prompt is the control."""
    rules = {"rules": [{"deny": "library/prompts/summarise", "reason": "too long"}]}
    async with in_memory(configuration(tmp_path, library(tmp_path), permissions=rules)) as host:
        assert [it.name for it in (await host.client.list_prompts()).prompts] == ["library/illustrated"]
        for name in ("library/summarise", "library/summaries", "library/illustrate"):
            with pytest.raises(MCPError, match="there is no prompt") as refused:
                await host.client.get_prompt(name, {"title": "Dune"})
            assert "'library/summarise'" not in str(refused.value)
        told = [
            (await host.call("list_dir", path="/servers/library")).text,
            (await host.run("from servers.library import prompts")).text,
        ]
    assert not any("summarise" in text for text in told), told
    assert asked_of("library", tmp_path) == []


PROTECTED = {"servers": {"library": "tokens"}}


@pytest.mark.parametrize(
    ("privacy", "kinds"),
    [(PROTECTED, ["text"]), (PROTECTED | {"shown_files": "mark"}, ["image", "text"]), ({}, ["image"])],
)
async def test_an_image_is_left_out_or_marked_where_personal_data_is_protected(
    tmp_path: Path, privacy: dict[str, Any], kinds: list[str]
) -> None:
    async with in_memory(configuration(tmp_path, library(tmp_path), privacy=privacy)) as host:
        messages = (await host.client.get_prompt("library/illustrated", {})).messages
    assert [message.content.type for message in messages] == kinds


async def test_what_is_wrong_with_a_request_is_said_and_nothing_is_asked(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, library(tmp_path))) as host:
        for name, arguments, problem in (
            ("library/sumarise", {}, "did you mean 'library/summarise'"),
            ("library/summarise", {}, "needs 'title'"),
            ("library/summarise", {"title": "x" * 300_000}, "at most 262,144 characters"),
            ("nothing", {}, 'no prompt "nothing"'),
        ):
            with pytest.raises(MCPError, match=problem):
                await host.client.get_prompt(name, arguments)
    assert asked_of("library", tmp_path) == []


async def prompts(host: Host) -> list[str]:
    return [prompt.name for prompt in (await host.client.list_prompts(cache_mode="bypass")).prompts]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_prompt_that_a_server_adds_is_offered_and_the_host_is_notified(tmp_path: Path, protocol: str) -> None:
    notified: list[Any] = []

    async def note(message: Any) -> None:
        notified.append(message)

    path = configuration(tmp_path, shelf(tmp_path, protocol))
    async with in_memory(path, mode="legacy", message_handler=note) as host:
        assert await prompts(host) == ["shelf/greet"]
        notified.clear()  # the first listing was announced as well
        await host.run(PUT)

        async def is_offered() -> bool:
            return await prompts(host) == ["shelf/greet", "shelf/part"]

        await host.until(is_offered)
        await host.until(lambda: any(isinstance(it, types.PromptListChangedNotification) for it in notified))
        answer = await host.client.get_prompt("shelf/part")
    assert "Goodbye" in str(answer.messages[-1].content)
