"""What the answer of a program says about the servers that it used: one that was restarted, and errors that came as
normal results. Driven by a host; the server is a real process."""

from __future__ import annotations

from pathlib import Path

from .product import configuration, hotel, in_memory

RESTARTED = "[note: hotel was restarted since its last call; its state may be gone]"
LIST = "from servers.hotel import list_rooms\nlist_rooms()"


async def test_a_restart_between_two_calls_is_mentioned_once_by_the_program_that_next_uses_the_server(
    tmp_path: Path,
) -> None:
    async with in_memory(configuration(tmp_path, hotel(tmp_path, "quiet"))) as host:
        first = await host.run("from servers.hotel import leave\nleave()")
        unrelated = await host.run("1 + 1")
        after, later = await host.run(LIST), await host.run(LIST)
    assert "restarted" not in first.text + unrelated.text + later.text
    assert after.text.count(RESTARTED) == 1
    assert "12 rooms" in after.text
    assert (tmp_path / "hotel.log").read_text().splitlines().count("start") == 2


async def test_an_error_that_comes_as_a_normal_result_is_noted_once_and_teaches_no_type(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, hotel(tmp_path, "quiet"))) as host:
        texts = "[{'text': f'Database error: no such table: t{n}'} for n in range(3)]"
        code = f"from servers.hotel import say\nlen(say.map({texts}))"
        noted = (await host.run(code)).text
        assert noted.count("[warning: ") == 1
        assert "[warning: calls 1, 2, 3 did NOT succeed: hotel.say returned its error as a result: " in noted
        assert """; test: str(result).startswith('Database error')]""" in noted
        assert "type unknown until called" in (await host.call("read_tool", path="hotel.say")).text

        text = "A report on errors.\\n\\nError: is how messages begin."
        plain = (await host.run(f"from servers.hotel import say\nsay(text='{text}')")).text
        assert "Error: is how messages begin." in plain
        assert "[note" not in plain
        assert "-> str" in (await host.call("read_tool", path="hotel.say")).text


def kinds(text: str) -> list[str]:
    """The remarks of an answer, in a word each."""
    words = {
        "[warning: call 2 (text=": "error",
        "[cut: ": "cut",
        "[hint: ": "hint",
    }
    return [word for line in text.split("\n") for beginning, word in words.items() if line.startswith(beginning)]


async def test_a_server_s_error_about_a_path_of_the_workspace_is_explained_once(tmp_path: Path) -> None:
    note = "[note: hotel.say failed on '/workspace/a.txt': servers do not see the programs' /workspace; "
    head, path = "from servers.hotel import say\n", "path='/workspace/a.txt'"
    denied = "text='Access denied: /workspace/a.txt is outside of /srv'"
    explained = [
        f"say({denied}, {path})",
        f"say({denied}, paths=['/srv', '/workspace/a.txt'])",
        f"for _ in 'ab':\n    try: say({denied}, {path})\n    except ToolError: pass",
        f"say(text='Error: no such file /workspace/a.txt', {path})",
        "say(text='Error: no files match \"/workspace/a.txt\"', path='select * from read_csv(\\'/workspace/a.txt\\')')",
    ]
    plain = [
        "say(text='Access denied: /srv/workspace/a.txt', path='/srv/workspace/a.txt')",
        f"say(text='Access denied', {path})",
        f"say(text='Access denied: /workspaces/a.txt', {path})",
        f"say(text='found /workspace/a.txt', {path})",
    ]
    async with in_memory(configuration(tmp_path, hotel(tmp_path, "quiet"))) as host:
        assert [(await host.run(head + code)).text.count(note) for code in explained] == [1] * len(explained)
        assert [(await host.run(head + code)).text.count("servers do not see") for code in plain] == [0] * len(plain)
