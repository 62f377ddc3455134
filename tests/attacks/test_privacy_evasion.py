"""Threat: a program that sees personal data (`privacy.programs: values`) gets it to the model, which may not see it.

Rule: what the model can read from the answers is not the value, whichever way out the program takes and however it
writes the value. Some programs get it out all the same: they are here too, so that the list in the security guide is
true. Each program also carries a harmless text in the same way, which has to arrive.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.attacks.evading_programs import CAUGHT, HARMLESS, THROUGH, VALUE, Answers, Attempt
from tests.behaviour.product import PLAIN, Answer, Host, configuration, in_memory_for_all

SERVER = (
    PLAIN
    + f"""
server = Server("people")

@server.tool(description="One customer.")
def person() -> dict[str, str]:
    return {{"full_name": "Ann Lovelace", "email": {VALUE!r}}}

@server.tool(description="Note a text.")
def note(text: str) -> str:
    return "noted " + text

server.run()
"""
)
READ = "from servers.people import person\nit = person()['email']\n"
READ_HARMLESS = f"from servers.people import person\nit, _ = {HARMLESS!r}, person()['email']\n"
pytestmark = pytest.mark.asyncio(loop_scope="module")
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "security.md"


def product(folder: Path, programs: str, **sections: Any) -> Path:
    script = folder / "people.py"
    script.write_text(SERVER)
    return configuration(
        folder,
        {"people": {"command": sys.executable, "args": [str(script)]}},
        privacy={"servers": {"people": "tokens"}, "programs": programs},
        **sections,
    )


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    """A product whose programs see values."""
    async with in_memory_for_all(product(tmp_path_factory.mktemp("values"), "values")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def careful_host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    """A product whose programs see tokens, as they do by default."""
    async with in_memory_for_all(product(tmp_path_factory.mktemp("tokens"), "tokens")) as opened:
        yield opened


async def answers(host: Host, attempt: Attempt, read: str) -> list[Answer]:
    return [await host.run(read + program) for program in attempt.programs]


def as_read(attempt: Attempt, given: Answers) -> str:
    """What the model makes of the answers."""
    try:
        return attempt.read(given)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, SyntaxError, OverflowError):
        return ""


@pytest.mark.evasion
@pytest.mark.parametrize("name", CAUGHT)
async def test_a_program_that_sees_a_value_does_not_get_it_to_the_model(host: Host, name: str) -> None:
    given = await answers(host, CAUGHT[name], READ)
    assert VALUE not in as_read(CAUGHT[name], given).casefold()
    assert any("_1>" in it.result.model_dump_json() for it in given)
    control = await answers(host, CAUGHT[name], READ_HARMLESS)
    assert HARMLESS in as_read(CAUGHT[name], control), "the control"


@pytest.mark.evasion
@pytest.mark.parametrize("name", THROUGH)
async def test_some_programs_get_a_value_to_the_model_as_the_guide_says(host: Host, name: str) -> None:
    assert as_read(THROUGH[name], await answers(host, THROUGH[name], READ)) == VALUE
    assert as_read(THROUGH[name], await answers(host, THROUGH[name], READ_HARMLESS)) == HARMLESS


@pytest.mark.evasion
@pytest.mark.parametrize("name", THROUGH)
async def test_programs_that_see_tokens_have_nothing_to_get_out(careful_host: Host, name: str) -> None:
    assert VALUE not in as_read(THROUGH[name], await answers(careful_host, THROUGH[name], READ))
    control = await answers(careful_host, THROUGH[name], READ_HARMLESS)
    assert as_read(THROUGH[name], control) == HARMLESS, "the control"


@pytest.mark.evasion
async def test_a_program_can_ask_for_no_value(careful_host: Host) -> None:
    look = (
        "import codemode\n[name for name in dir(codemode) if 'reveal' in name or 'privacy' in name or 'token' in name]"
    )
    assert (await careful_host.run(READ + look)).value == []
    refused = await careful_host.run(READ + "import codemode\ncodemode.privacy.reveal(it)")
    assert VALUE not in refused.result.model_dump_json()
    assert refused.content["status"] != "succeeded"
    assert (await careful_host.run(READ + "it")).value == "<EMAIL_1>", "the control"


@pytest.mark.evasion
async def test_a_value_in_the_name_of_a_file_or_in_a_picture_is_not_shown(host: Host) -> None:
    """Ways out beside the answers of programs."""
    await host.run(
        READ + "open(f'/workspace/{it}.txt', 'w').write(it)\nopen('/workspace/plain.txt', 'w').write('plain')"
    )
    listing = (await host.call("list_dir", path="/workspace")).result.model_dump_json()
    assert "plain.txt" in listing, "the control"
    assert VALUE not in listing
    picture = "bytes.fromhex('89504e470d0a1a0a') + it.encode()"
    shown = await host.run(READ + f"from codemode import show\nshow({picture}, name='a.png')")
    assert [it.type for it in shown.result.content] == ["text"]
    assert VALUE not in shown.text


@pytest.mark.evasion
async def test_a_skill_with_a_value_is_listed_found_and_read_without_it(host: Host) -> None:
    """A program writes it, and another tool shows it."""
    save = (
        "name = 'at_' + ''.join(c if c.isalnum() else '_' for c in it)\n"
        'text = f\'def send() -> str:\\n    """Quarterly figures: {it}, {it[::-1]}."""\\n    return {it!r}\\n\'\n'
        "open('/skills/quarterly.py', 'w').write(text)\nopen(f'/skills/{name}.py', 'w').write(text)"
    )
    for read, written in ((READ_HARMLESS, HARMLESS), (READ, VALUE)):
        assert (await host.run(read + save)).content["status"] == "succeeded"
        given = [
            await host.call("list_dir", path="/skills"),
            await host.call("read_tool", path="/skills/quarterly.py"),
            await host.call("search_tools", query="quarterly figures"),
        ]
        text = "".join(it.result.model_dump_json() for it in given).casefold()
        as_name = re.sub("[^a-z]", "_", written)
        assert "at_" in text
        assert "quarterly" in text
        for spelled in (written, written[::-1], as_name):
            assert (spelled in text) is (written == HARMLESS), "the harmless text is the control"


async def test_the_guide_has_the_count() -> None:
    counted = re.search(r"Of (\d+) programs that try[^.]*?, (\d+)\s+get", " ".join(GUIDE.read_text().split()))
    assert counted is not None
    assert [int(it) for it in counted.groups()] == [len(CAUGHT) + len(THROUGH), len(THROUGH)]
