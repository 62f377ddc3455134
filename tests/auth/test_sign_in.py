"""A person signs in to a protected server with the real command, and programs then call its tools."""

from __future__ import annotations

from pathlib import Path

from tests.auth import kit
from tests.behaviour.product import in_memory


async def test_a_program_calls_a_tool_after_the_person_has_signed_in(config: Path, tmp_path: Path) -> None:
    said = kit.signed_in(config)
    assert "signed in to 'protected'" in said
    async with in_memory(config) as host:
        answer = await host.run("from servers.protected import whoami\nreturn whoami()")
        assert answer.value == "ada"
