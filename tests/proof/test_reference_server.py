"""The reference server's 17 tools, 7 resources, 2 templates, 4 prompts.

Real clients of both eras. Each era has one product, a process as hosts start it. Its person, model and folders are
`Person`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from scripts.real_servers import commands
from tests.attacks.kit import recorded
from tests.behaviour.person import Person
from tests.behaviour.product import Host, configuration, for_all, over_stdio

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.asyncio(loop_scope="module"),
]

ERAS = {"2025-11-25": "legacy", "2026-07-28": "auto"}
PERSON = Person(content={"name": "Ada", "check": True}, said="hello from the model")
CALLS: dict[str, tuple[str, Any]] = {
    "echo": ("echo(message='hi')", "Echo: hi"),
    "get_annotated_message": (
        "text, image = get_annotated_message(messageType='error', includeImage=True)\n"
        "[text, image.mime_type, image.data[:4] == b'\\x89PNG']",
        ["Error: Operation failed", "image/png", True],
    ),
    "get_env": ("get_env()['GREETING']", "hello"),
    "get_resource_links": (
        "[link.data[:8] == b'Resource' for link in get_resource_links(count=2)[1:]]",
        [True, True],
    ),
    "get_resource_reference": (
        "next(part.uri for part in get_resource_reference(resourceType='Blob', resourceId=2) if hasattr(part, 'uri'))",
        "demo://resource/dynamic/blob/2",
    ),
    "get_roots_list": ("'file:///home/ada/work' in get_roots_list()", True),
    "get_structured_content": (
        "get_structured_content(location='Chicago')",
        {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82},
    ),
    "get_sum": ("get_sum(a=2, b=40)", "The sum of 2 and 40 is 42."),
    "get_tiny_image": ("[part.mime_type for part in get_tiny_image() if hasattr(part, 'data')]", ["image/png"]),
    "gzip_file_as_resource": (
        "import gzip\ngzip.decompress(gzip_file_as_resource(name='a.gz', data='data:text/plain,hello').data).decode()",
        "hello",
    ),
    "simulate_research_query": (
        "'# Research Report: python' in simulate_research_query(topic='python', ambiguous=True)",
        True,
    ),
    "toggle_simulated_logging": ("toggle_simulated_logging()[:25]", "Started simulated, random"),
    "toggle_subscriber_updates": ("toggle_subscriber_updates()[:26]", "Started simulated resource"),
    "trigger_elicitation_request": ("'- Name: Ada' in str(trigger_elicitation_request())", True),
    "trigger_long_running_operation": (
        "trigger_long_running_operation(duration=0.2, steps=2)",
        "Long running operation completed. Duration: 0.2 seconds, Steps: 2.",
    ),
    "trigger_sampling_request": ("'hello from the model' in str(trigger_sampling_request(prompt='hi'))", True),
    "trigger_url_elicitation": (
        "'completed the URL elicitation' in str(trigger_url_elicitation(url='https://example.com/x'))",
        True,
    ),
}
"""Tool → a program's last lines, and their value."""
RESOURCES = [
    "architecture.md",
    "extension.md",
    "features.md",
    "how-it-works.md",
    "instructions.md",
    "startup.md",
    "structure.md",
]
PROMPTS: dict[str, tuple[dict[str, str], str]] = {
    "simple-prompt": ({}, "simple prompt"),
    "args-prompt": ({"city": "Paris"}, "Paris"),
    "completable-prompt": ({"department": "Engineering", "name": "Alice"}, "Alice"),
    "resource-prompt": ({"resourceType": "Text", "resourceId": "1"}, "demo://resource/dynamic/text/1"),
}
"""Prompt → its arguments, and a part of its messages."""


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=ERAS)
async def host(
    real_servers: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Host]:
    command, *arguments = commands(["everything"])["everything"]
    server = {"command": command, "args": arguments, "env": {"GREETING": "hello"}}
    path = configuration(tmp_path_factory.mktemp("reference"), {"everything": server})
    async with for_all(over_stdio(path, mode=ERAS[request.param], **PERSON.callbacks)) as host:
        yield host


async def test_the_host_speaks_the_protocol_of_its_era_and_gets_all_tools(
    host: Host, request: pytest.FixtureRequest
) -> None:
    """A client without features is shown 13."""
    assert host.client.protocol_version == request.node.callspec.params["host"]
    assert f"{len(CALLS)} tools" in (await host.call("list_dir", path="/servers/everything")).text
    assert len(CALLS) == 17


@pytest.mark.parametrize("tool", CALLS)
async def test_a_program_calls_each_tool(host: Host, tool: str) -> None:
    code, expected = CALLS[tool]
    assert (await host.run(f"from servers.everything import {tool}\n{code}")).value == expected


async def test_all_seven_resources_are_read_by_name_and_uri(host: Host) -> None:
    code = """
from servers.everything import resources
listed = [each for each in resources.list() if each["uri"].startswith("demo://resource/static")]
[[each["name"], len(resources.read(each["uri"]).text) > 100, resources.read(each["name"]).mime_type] for each in listed]
"""
    before = len(recorded(host.folder))
    answer = await host.run(code)
    assert answer.value == [[name, True, "text/markdown"] for name in RESOURCES]
    rows = recorded(host.folder)[before:]
    assert [row[1:] for row in rows] == [("resources/read", "allow", "succeeded")] * 14
    assert {call["tool"] for call in answer.content["calls"]} == {"everything.resources.read"}


async def test_both_templates_are_read_by_name_and_by_uri(host: Host) -> None:
    code = """
from servers.everything import resources
text = resources.read("Dynamic_Text_Resource", resourceId=7)
blob = await resources.read("demo://resource/dynamic/blob/{resourceId}", resourceId="3")
same = resources.read("demo://resource/dynamic/text/7")
names = [each["name"] for each in resources.templates()]
[names, text.uri, "resource 7" in text.text.lower(), same.uri == text.uri, blob.uri, blob.is_text, len(blob.data) > 10]
"""
    assert (await host.run(code)).value == [
        ["Dynamic_Blob_Resource", "Dynamic_Text_Resource"],
        "demo://resource/dynamic/text/7",
        True,
        True,
        "demo://resource/dynamic/blob/3",
        True,
        True,
    ]


async def test_all_four_prompts_are_offered_to_the_host(host: Host) -> None:
    listed = (await host.client.list_prompts()).prompts
    assert [prompt.name for prompt in listed] == [f"everything/{name}" for name in PROMPTS]
    for name, (arguments, part) in PROMPTS.items():
        got = await host.client.get_prompt(f"everything/{name}", arguments)
        assert part in str(got.messages)
    assert [message.content.type for message in got.messages] == ["text", "resource"]


async def test_forms_and_addresses_name_the_server(host: Host) -> None:
    PERSON.seen.clear()
    await host.run(
        "from servers.everything import trigger_elicitation_request, trigger_url_elicitation\n"
        "trigger_elicitation_request(); trigger_url_elicitation(url='https://example.com/x')"
    )
    asked = [one for one in PERSON.seen if one != "roots/list"]  # it may ask for them at any time
    assert [one.message[:34] for one in asked] == ["The MCP server 'everything' asks: "] * 2
