"""The reference server's 7 resources, 2 templates and 4 prompts, through the whole product, in both eras."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts.real_servers import commands
from tests.attacks.kit import recorded
from tests.behaviour.product import configuration, in_memory

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(300)]

FILES = [
    "architecture.md",
    "extension.md",
    "features.md",
    "how-it-works.md",
    "instructions.md",
    "startup.md",
    "structure.md",
]
TEMPLATES = ["Dynamic_Blob_Resource", "Dynamic_Text_Resource"]


def everything(**settings: Any) -> dict[str, Any]:
    command, *arguments = commands(["everything"])["everything"]
    return {"everything": {"command": command, "args": arguments, **settings}}


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_all_seven_resources_are_read_by_name(real_servers: None, tmp_path: Path, protocol: str) -> None:
    code = """
from servers.everything import resources
listed = [each for each in resources.list() if "arguments" not in each]
[[each["name"], len(resources.read(each["uri"]).text) > 100, resources.read(each["name"]).mime_type] for each in listed]
"""
    async with in_memory(configuration(tmp_path, everything(protocol=protocol))) as host:
        answer = await host.run(code)
    assert answer.value == [[name, True, "text/markdown"] for name in FILES]
    assert len(recorded(tmp_path)) == 14
    assert {row[1:] for row in recorded(tmp_path)} == {("resources/read", "allow", "succeeded")}
    assert {call["tool"] for call in answer.content["calls"]} == {"everything.read_resource"}


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_both_templates_are_read_by_name_and_by_uri(real_servers: None, tmp_path: Path, protocol: str) -> None:
    code = """
from servers.everything import resources
text = resources.read("Dynamic_Text_Resource", resourceId=7)
blob = await resources.read("demo://resource/dynamic/blob/{resourceId}", resourceId="3")
same = resources.read("demo://resource/dynamic/text/7")
names = [each["name"] for each in resources.list() if "arguments" in each]
[names, text.uri, "resource 7" in text.text.lower(), same.uri == text.uri, blob.uri, blob.is_text, len(blob.data) > 10]
"""
    async with in_memory(configuration(tmp_path, everything(protocol=protocol))) as host:
        value = (await host.run(code)).value
    assert value == [
        TEMPLATES,
        "demo://resource/dynamic/text/7",
        True,
        True,
        "demo://resource/dynamic/blob/3",
        False,
        True,
    ]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_all_four_prompts_are_offered_to_hosts(real_servers: None, tmp_path: Path, mode: str) -> None:
    async with in_memory(configuration(tmp_path, everything()), mode=mode) as host:
        await host.settled()
        listed = (await host.client.list_prompts()).prompts
        simple = await host.client.get_prompt("everything/simple-prompt")
        city = await host.client.get_prompt("everything/args-prompt", {"city": "Paris"})
        team = await host.client.get_prompt(
            "everything/completable-prompt", {"department": "Engineering", "name": "Alice"}
        )
        resource = await host.client.get_prompt(
            "everything/resource-prompt", {"resourceType": "Text", "resourceId": "1"}
        )
    assert [prompt.name for prompt in listed] == [
        f"everything/{name}" for name in ("simple-prompt", "args-prompt", "completable-prompt", "resource-prompt")
    ]
    assert simple.messages
    assert "Paris" in city.messages[0].content.text  # type: ignore[union-attr]
    assert "Alice" in team.messages[0].content.text  # type: ignore[union-attr]
    assert [message.content.type for message in resource.messages] == ["text", "resource"]
