"""What a program shows: believed is what its bytes begin with, within a budget; the rest is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.config.settings import LimitSettings, Settings
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Owner, Principal, Session
from codemode_server.executions.artifacts import ArtifactStore
from codemode_server.executions.attachments import Attachments, ShownFile, checked
from codemode_server.executions.call_results import CallResults
from codemode_server.executions.execution import Execution
from codemode_server.sandbox.contract import Limits
from codemode_server.support.redaction import Redactor

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
ADA = Owner(Principal(PrincipalId("local")), Session("ada"))
SECRET = "ghp_0123456789abcdef"


@pytest.mark.parametrize(
    ("data", "claimed", "name", "kind", "mime_type"),
    [
        (PNG, "image/png", None, "image", "image/png"),
        (PNG, "image/jpeg", None, "image", "image/png"),
        (b"\xff\xd8\xff\xe0rest\xff", "image/jpg", None, "image", "image/jpeg"),
        (b"GIF89a\xff", "", None, "image", "image/gif"),
        (b"RIFF\xff\xff\xff\xffWEBPVP8 ", None, None, "image", "image/webp"),
        (b"no picture", "image/png", None, "text", "text/plain"),
        (b"\xffno picture", "image/png", "a.png", "blob", "application/octet-stream"),
        (b"<svg xmlns='x'/>", "image/svg+xml", None, "text", "image/svg+xml"),
        (b"BM\xff\xfe", "image/bmp", None, "blob", "application/octet-stream"),
        (b"RIFF\xff\xff\xff\xffWAVEfmt ", "audio/x-wav", None, "audio", "audio/wav"),
        (b"ID3\xff", "audio/mp3", None, "audio", "audio/mpeg"),
        (b"\xff\xfb\x90\xff", "application/pdf", None, "blob", "application/pdf"),
        (b"a,b\n", None, "x.csv", "text", "text/csv"),
        (b"{}", "application/json; charset=utf-8", None, "text", "application/json"),
        (b"%PDF\xff", "application/pdf", None, "blob", "application/pdf"),
        (b"plain", "no type at all", None, "text", "text/plain"),
        (b"a\0b", "text/plain", None, "blob", "text/plain"),
    ],
)
def test_bytes_are_what_they_begin_with_whatever_is_said_of_them(
    data: bytes, claimed: str | None, name: str | None, kind: str, mime_type: str
) -> None:
    assert checked(data, claimed, name) == (kind, mime_type)


def showing(folder: Path, kept_bytes: int = 10**6, **limits: Any) -> tuple[Attachments, list[ShownFile], ArtifactStore]:
    kept = ArtifactStore(folder / "kept", kept_bytes, kept_bytes)
    config = LiveConfig(Settings(limits=LimitSettings(**limits)), Redactor([SECRET]))
    calls = ExecutionCalls(ExecutionId("x1"), Caller(ADA.principal, ADA.session, config))
    execution = Execution(calls.execution_id, "", calls.caller, Limits(), calls, CallResults(kept))
    return Attachments(execution, kept), execution.shown, kept


async def test_what_is_shown_is_kept_too_so_that_its_address_can_be_read(tmp_path: Path) -> None:
    show, files, kept = showing(tmp_path)
    assert await show.show(PNG, None, "../../a.png") == "shown"
    assert files == [ShownFile(1, "image", "image/png", PNG, len(PNG), "a.png", True, "x1/1")]
    assert kept.read(ADA, "x1/1")[1] == PNG


@pytest.mark.parametrize("limits", [{"shown_files": 1}, {"shown_bytes": 500}, {"shown_bytes": 360}])
async def test_past_the_budget_it_is_only_kept(tmp_path: Path, limits: dict[str, int]) -> None:
    show, files, kept = showing(tmp_path, **limits)
    assert await show.show(PNG, None, None) == "shown"
    assert await show.show(PNG, None, None) == "past the budget, stored as x1/2"
    assert [(file.is_within_budget, len(file.data)) for file in files] == [(True, len(PNG)), (False, 0)]
    assert kept.read(ADA, "x1/2")[1] == PNG


async def test_what_has_no_room_anywhere_is_refused_with_what_to_do(tmp_path: Path) -> None:
    show, files, _ = showing(tmp_path, kept_bytes=10, shown_bytes=10)
    with pytest.raises(MetaToolError, match=r"limits\.shown_bytes.*/workspace"):
        await show.show(PNG, None, None)
    assert files == []


async def test_a_secret_is_masked_in_text_in_names_and_where_it_stands_in_bytes(tmp_path: Path) -> None:
    show, files, kept = showing(tmp_path)
    await show.show(f"a {SECRET[:5]}\x1b[0m{SECRET[5:]}".encode(), None, f"{SECRET}.txt")
    await show.show(PNG + SECRET.encode() + b"\xff", None, None)
    assert files[0].data == b"a ***"
    assert files[0].name == "***.txt"
    assert files[1].data == PNG + b"***\xff"
    assert SECRET.encode() not in kept.read(ADA, "x1/1")[1] + kept.read(ADA, "x1/2")[1]
