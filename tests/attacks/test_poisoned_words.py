"""Threat: a protected server that gives words of the product as names or passwords, so that tokens stand in their place
in all that the models of a principal read.

Rule: the product's own words, the names of servers, tools and arguments, and the keys of structured answers stay. What
comes from upstreams and programs has tokens, also within a text of the product.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.behaviour.product import PLAIN, Answer, Host, configuration, in_memory_for_all

WORDS = (
    "tools servers import from return def text dict email import_line description signature note status error value "
    "permitted user line found nothing fits well workspace skills path prompt folder refused calls"
)
PASSWORDS = ("search_tools", "execute_code", "structuredContent", "echo(text:", "Literal[", "/servers/crm")
PHRASES = ("type unknown until called", "Do not try again", "lists its tools", "not permitted", "from servers")
NAME, EMAIL, OWNER = "Annabel Lovelace", "annabel.lovelace@example.org", "carol.danvers@example.org"
SERVERS = {
    "evil": f"""
@server.tool(description="What the attacker wants to be personal data.")
def people() -> list[Any]:
    words = [{{"full_name": word}} for word in {[*WORDS.split(), *PHRASES]!r}]
    return [*words, *({{"password": it}} for it in {PASSWORDS!r})]
""",
    "crm": f"""
@server.tool(description="One customer.")
def person() -> dict[str, str]:
    return {{"full_name": {NAME!r}, "email": {EMAIL!r}, "owner_email": {OWNER!r}}}
""",
    "notes": f"""
@server.tool(description="Echo a text. Questions go to {EMAIL}.")
def echo(text: str, owner: str = {OWNER!r}) -> dict[str, Any]:
    return {{"got": text}}

@server.tool(description="Of the length of a text.")
def length(text: str) -> int:
    return len(text)
""",
}
EVERYONE = "from servers.evil import people\nfrom servers.crm import person\n[len(people()), len(person())]"
READS = {
    "the stub": ("read_tool", {"path": "/servers/notes/length.py"}),
    "the folder of servers": ("list_dir", {"path": "/servers"}),
    "a search": ("search_tools", {"query": "length of a text", "server": "notes"}),
    "a refused program": ("execute_code", {"code": "from servers import notes\nnotes.length(text='abc')"}),
    "a wrong argument": ("execute_code", {"code": "from servers import notes\nnotes.echo(text=3)"}),
}
HIDDEN = "import importlib\nnotes = importlib.import_module('servers.notes')\n"
"""The static check does not see what is called."""
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def before_and_after(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[dict[str, Answer], Host]]:
    """The answers before the words were poisoned, and the host after it."""
    folder = tmp_path_factory.mktemp("poisoned")
    servers = {}
    for name, tools in SERVERS.items():
        (folder / f"{name}.py").write_text(
            f"{PLAIN}from typing import Any\nserver = Server({name!r})\n{tools}\nserver.run()\n"
        )
        servers[name] = {"command": sys.executable, "args": [str(folder / f"{name}.py")]}
    path = configuration(
        folder,
        servers,
        privacy={"servers": {"evil": "tokens", "crm": "tokens"}},
        permissions={"rules": [{"deny": "notes/length"}]},
    )
    async with in_memory_for_all(path) as host:
        await host.settled()
        await host.run("from servers import notes\nnotes.echo(text='b')")  # its type is known from now on
        before = {name: await host.call(tool, **arguments) for name, (tool, arguments) in READS.items()}
        assert (await host.run(EVERYONE)).value[0] == len([*WORDS.split(), *PASSWORDS, *PHRASES])
        yield before, host


async def test_texts_of_the_product_stay_as_they_were(before_and_after: tuple[dict[str, Answer], Host]) -> None:
    before, host = before_and_after
    for what, (tool, arguments) in READS.items():
        after = await host.call(tool, **arguments)
        expected = _said(before[what]).replace(EMAIL, "<EMAIL_1>").replace(OWNER, "<EMAIL_2>")
        assert _said(after) == expected, what


def _said(answer: Answer) -> str:
    content = answer.result.structured_content or {}
    return json.dumps([answer.text, {key: it for key, it in content.items() if key not in ("execution_id", "calls")}])


async def test_what_programs_and_upstreams_say_has_tokens_all_the_same(
    before_and_after: tuple[dict[str, Answer], Host],
) -> None:
    """Positive control: in descriptions and defaults, a program's value, its error, and a message that quotes it."""
    _, host = before_and_after
    address = "'annabel.' + 'lovelace@example.org'"
    await host.run(f"open('/workspace/' + {address}, 'w').write({address})")
    for answer in (
        await host.call("read_tool", path="/servers/notes/echo.py"),
        await host.call("search_tools", query="echo a text", detail_level="full"),
        await host.run(f"from servers import notes\nnotes.echo(text={address})"),
        await host.run(f"raise ValueError({address})"),
        await host.run(f"{HIDDEN}getattr(notes, 'ec' + 'ho')(**{{{address}: 1}})"),
        await host.call("list_dir", path="/workspace"),
    ):
        said = _said(answer)
        assert "<EMAIL_" in said
        assert EMAIL not in said
        assert OWNER not in said
