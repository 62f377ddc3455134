"""The note on a path of /workspace that was given to a tool: made on the event loop, of hostile arguments."""

from __future__ import annotations

from codemode_server.domain.ids import JsonValue
from codemode_server.gateway.call_reports import message_on_path
from tests.work import lines_run


def test_arguments_of_very_many_empty_lists_are_searched_in_part_only() -> None:
    failure = "no such file: /workspace/a.csv"
    hostile: JsonValue = [[] for _ in range(1_000_000)]
    messages: list[str | None] = []
    assert lines_run(lambda: messages.append(message_on_path("files.read", hostile, failure))) < 20_000
    assert messages == [None]
    note = message_on_path("files.read", {"paths": ["/workspace/a.csv"]}, failure)
    assert note is not None
    assert note.startswith("files.read failed on '/workspace/a.csv': servers do not see the programs' /workspace")
