"""What models get of our answers through real hosts: Claude Code, Codex, Gemini CLI and opencode, from npm.

Each host starts the product as its own configuration says, attached to a running server; its model is a scripted one
on loopback. So the request that the host sends to its model is read as it is; nothing leaves this machine.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from tests.behaviour.product import over_stdio
from tests.hosts.kit import NodeTools, configured, reached, until
from tests.hosts.model_hosts import ModelHost, Project
from tests.hosts.scripted_model import ScriptedModel, Seen, scripted_model
from tests.shared_server import short_folder

pytestmark = [pytest.mark.slow, pytest.mark.network]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG = (
    b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0))
    + _chunk(b"IDAT", zlib.compress(bytes(72)))
    + _chunk(b"IEND", b"")
)
"""A black square: hosts look at an image before they pass it on."""
PROGRAM = f"""
from codemode import show
from servers.github import list_issues
show({PNG!r}, name="a.png")
print("printed")
[issue["title"] for issue in list_issues(repo="shop")][:2]
"""
ANSWER = f"""\
output:
printed
value:
["Issue 1 of shop","Issue 2 of shop"]
[shown: a.png: image/png, {len(PNG):,} bytes]"""
META_TOOLS = ["execute_code", "list_dir", "read_tool", "search_tools"]
Installed = tuple[ModelHost, NodeTools]


@dataclass(frozen=True)
class Conversation:
    """What a host listed, what its model got, and what we had given it."""

    listed: str
    seen: Seen
    description: str
    """Of `execute_code`, as the product lists it."""
    reached: list[str]


@pytest.fixture(scope="module")
def conversation(installed_host: Installed, tmp_path_factory: pytest.TempPathFactory) -> Conversation:
    """One start for the list and one for the call."""
    host, tools = installed_host
    folder = tmp_path_factory.mktemp(host.name)
    with started(folder) as (project, model):
        description = anyio.run(_description, project.config)
        listed = host.run(project, tools, "mcp", "list")
        said = host.run(project, tools, *host.ask)
        try:
            seen = model.seen()
        except LookupError as error:
            pytest.fail(f"{error}\n{said}")
    return Conversation(listed, seen, description, [call["tool"] for call in reached(folder)])


@contextmanager
def started(folder: Path) -> Iterator[tuple[Project, ScriptedModel]]:
    """A project with a home of its own, and a model to talk to."""
    config = configured(folder, "github", results={}, server={"idle_minutes": 0})
    with scripted_model(PROGRAM) as model, short_folder("hosts-") as data:
        project = Project(folder, model.url, config, data)
        project.home.mkdir()
        yield project, model
        run = data / "codemode-server" / "run"
        assert [*run.glob("*.log")], "the control: a server was started for its hosts"
        until(lambda: not [*run.glob("*.sock")])


async def _description(config: Path) -> str:
    """From now on the product knows the upstreams before they are connected."""
    async with over_stdio(config) as host:
        pass
    async with over_stdio(config) as host:
        (tool,) = [tool for tool in (await host.client.list_tools()).tools if tool.name == "execute_code"]
    return tool.description or ""


def test_the_host_lists_the_product_as_a_server_that_works(conversation: Conversation) -> None:
    """Codex says `enabled` of a server and does not start it for the list."""
    lines = [line.lower() for line in conversation.listed.splitlines() if "codemode" in line]
    assert any(state in line for line in lines for state in ("connected", "enabled")), conversation.listed
    assert not any(state in conversation.listed.lower() for state in ("disconnected", "failed", "disabled"))


def test_the_model_gets_the_description_of_the_four_tools_word_for_word(conversation: Conversation) -> None:
    names = conversation.seen.names
    assert sorted(tool for tool in META_TOOLS for name in names if name.endswith(tool)) == META_TOOLS
    written_by_claude_code = conversation.description.replace("…", "...")
    assert conversation.seen.description in (conversation.description, written_by_claude_code)


def test_the_model_gets_the_text_of_the_result_word_for_word(conversation: Conversation) -> None:
    """Claude Code and Codex show structured content in its place, if there is any."""
    assert ANSWER in conversation.seen.result
    assert conversation.reached == ["list_issues"], "it was called once"


def test_the_model_gets_the_image_that_the_program_shows(conversation: Conversation) -> None:
    assert [base64.b64decode(image) for image in conversation.seen.images] == [PNG]
