"""Hostile resources, and programs that look for more than is listed; each with what works beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.behaviour.product import UPSTREAMS, configuration, in_memory

pytestmark = pytest.mark.slow

SHELVES = Path(__file__).parent / "servers" / "shelves.py"
VAULT = Path(__file__).parent / "servers" / "vault.py"


def servers(folder: Path) -> dict[str, Any]:
    return {
        "shelves": fork_server.upstream(str(SHELVES), str(folder / "shelves.log")),
        "library": fork_server.upstream(str(UPSTREAMS / "library.py"), str(folder / "library.log")),
    }


async def test_only_the_first_ten_thousand_of_fifty_thousand_are_taken_and_shown_in_pages(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, servers(tmp_path))) as host:
        shown = (await host.call("list_dir", path="/servers/shelves")).text
        page = (await host.call("list_dir", path="/servers/shelves/resources")).text
        evil = (await host.call("read_tool", path="/servers/shelves/resources/evil")).text
    assert "10,000 resources" in shown
    assert len(page.split("\n")) == 102
    assert not {"\x1b", "\u202e"} & set(shown + page + evil)
    assert not [line for line in page.split("\n") if line.startswith("# SYSTEM")]


async def test_a_resource_of_100_mb_is_an_error_and_the_next_one_is_read(tmp_path: Path) -> None:
    code = """
from servers.shelves import resources
try: r = resources.read("large").size
except ToolError as error: r = error.kind
[r, resources.read("small").text]
"""
    async with in_memory(configuration(tmp_path, servers(tmp_path))) as host:
        assert (await host.run(code)).value == ["result_too_large", "small"]


async def test_what_is_neither_listed_nor_linked_is_never_asked_for(tmp_path: Path) -> None:
    code = """
from servers.library import resources
kinds = []
for uri in URIS:
    try: kinds.append(resources.read(uri).text)
    except ToolError as error: kinds.append(error.kind)
kinds
"""
    state = tmp_path / "state" / "codemode.db"
    uris = [
        f"file://{state}",
        str(state),
        "../../upstream.yaml",
        "library://books/../private",
        "library://",
        "",
        "x" * 9_000,
    ]
    async with in_memory(configuration(tmp_path, servers(tmp_path))) as host:
        value = (await host.run(code.replace("URIS", repr([*uris, "library://readme"])))).value
    assert value == [*["invalid_arguments"] * 6, "too_long", "# Library"]
    assert (tmp_path / "library.log").read_text() == "readme\n"


DETOURS = [
    'resources.read("secret", id="7")',
    'resources.read("doc://secret/7")',
    'resources.read("any", path="secret/7")',
    'resources.read("any", path="%73ecret/7")',
    'resources.read("any", path="./secret//7")',
    'resources.read("any", path="SECRET/7")',
    '(find(), resources.read("doc://secret/7"))[1]',
    'resources.read("private")',
    'resources.read("data", name="private.txt")',
    'resources.read("data", name="Private.txt")',
    '(find(), resources.read("file:///data/private.txt"))[1]',
]
OTHERS = {
    'resources.read("any", path="secrets/7")': "any secrets/7",
    'resources.read("data", name="public.txt")': "data public.txt",
    '(find(), resources.read("doc://open/1"))[1]': "any open/1",
}


@pytest.mark.parametrize("answer", ["deny", "ask"])
async def test_a_refused_resource_is_not_read_by_a_link_or_another_template_and_others_are(
    tmp_path: Path, answer: str
) -> None:
    vault = {"vault": fork_server.upstream(str(VAULT), str(tmp_path / "vault.log"))}
    rules = {"rules": [{answer: "vault/resources/secret"}, {answer: "vault/resources/private"}]}
    # A question that nobody answers is refused as well.
    config = configuration(tmp_path, vault, permissions=rules, approvals={"timeout": 0.1, "browser": "never"})
    async with in_memory(config) as host:
        assert (await host.run(_readings([*DETOURS, *OTHERS]))).value == [*["refused"] * len(DETOURS), *OTHERS.values()]
    assert (tmp_path / "vault.log").read_text().splitlines() == list(OTHERS.values())


async def test_an_allowed_resource_does_not_allow_the_template_that_gives_it_too(tmp_path: Path) -> None:
    vault = {"vault": fork_server.upstream(str(VAULT), str(tmp_path / "vault.log"))}
    rules = {"default": "deny", "rules": [{"allow": "vault/resources/secret"}, {"allow": "vault/resources/private"}]}
    refused = ['resources.read("any", path="secret/7")', 'resources.read("data", name="private.txt")']
    allowed = {'resources.read("secret", id="7")': "secret 7", 'resources.read("private")': "private"}
    async with in_memory(configuration(tmp_path, vault, permissions=rules)) as host:
        assert (await host.run(_readings([*refused, *allowed]))).value == ["refused", "refused", *allowed.values()]


def _readings(expressions: list[str]) -> str:
    """A program whose value is what each expression reads, or the kind of its error."""
    lines = ["from servers.vault import find, resources", "values = []"]
    for expression in expressions:
        lines += [f"try: values.append({expression}.text)", "except ToolError as error: values.append(error.kind)"]
    return "\n".join([*lines, "values"])
