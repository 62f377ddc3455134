"""Hostile resources, and programs that look for more than is listed; each with what works beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.behaviour.product import asked_of, configuration, in_memory, library

pytestmark = pytest.mark.slow


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
    async with in_memory(configuration(tmp_path, library(tmp_path))) as host:
        value = (await host.run(code.replace("URIS", repr([*uris, "library://readme"])))).value
    assert value == [*["invalid_arguments"] * 6, "too_long", "# Library"]
    assert asked_of("library", tmp_path) == ["readme"]


DETOURS = [
    'resources.read("secret", id="7")',
    'resources.read("doc://secret/7")',
    'resources.read("any", path="secret/7")',
    'resources.read("any", path="./secret//7")',
    '(find(), resources.read("doc://secret/7"))[1]',
    'resources.read("private")',
    'resources.read("data", name="private.txt")',
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
    vault = library(tmp_path, "vault")
    restricted = [{answer: "vault/resources/secret"}, {answer: "vault/resources/private"}]
    allowed = [{"allow": f"vault/resources/{name}"} for name in ("any", "data", "doc://open/*")]
    rules = {"rules": [*restricted, *allowed]}
    # A question that nobody answers is refused as well.
    config = configuration(tmp_path, vault, permissions=rules, approvals={"timeout": 0.1, "browser": "never"})
    async with in_memory(config) as host:
        assert (await host.run(_readings([*DETOURS, *OTHERS]))).value == [*["refused"] * len(DETOURS), *OTHERS.values()]
    assert (tmp_path / "vault.log").read_text().splitlines() == list(OTHERS.values())


SPELLINGS = [
    "Secret/7",
    "SECRET/7",
    "%73ecret/7",
    "secret%2F7",
    "secret/7/",
    "secret;a=b/7",
    "secret/7?",
    "secret/7?x=a/b",
    "secret/7#x",
    "secret\\7",
    "/secret//7",
    "x/%2e%2E/secret/7",
    "x/../secret/7",
    "secret\u200b/7",
    "\uff53ecret/7",
]


@pytest.mark.parametrize(
    ("answer", "others"),
    [
        ("deny", []),
        ("deny", [{"allow": "vault"}]),
        ("deny", [{"allow": "vault/*", "effect": "read"}]),
        ("ask", [{"allow": "vault"}, {"deny": "vault/resources/private"}]),
    ],
)
async def test_once_a_resource_is_refused_no_other_spelling_is_read_unless_a_rule_names_it(
    tmp_path: Path, answer: str, others: list[dict[str, str]]
) -> None:
    """The server may take any of them for the same. A rule for the whole server allows its tools."""
    vault = library(tmp_path, "vault")
    named = {"allow": "vault/resources/doc://open/*"}
    rules = {"rules": [{answer: "vault/resources/secret"}, named, *others]}
    reads = [f'resources.read("any", path={path!r})' for path in [*SPELLINGS, "open/1"]]
    config = configuration(tmp_path, vault, permissions=rules, approvals={"timeout": 0.1, "browser": "never"})
    async with in_memory(config) as host:
        values = (await host.run(_readings(reads))).value
    assert "any open/1" in values, "control"
    assert {*values[:-1]} <= {"refused", "invalid_arguments"}
    assert (tmp_path / "vault.log").read_text().splitlines() == ["any open/1"]


def _readings(expressions: list[str]) -> str:
    """A program whose value is what each expression reads, or the kind of its error."""
    lines = ["from servers.vault import find, resources", "values = []"]
    for expression in expressions:
        lines += [f"try: values.append({expression}.text)", "except ToolError as error: values.append(error.kind)"]
    return "\n".join([*lines, "values"])
