"""`codemode-server tokens`: the token is printed once, and the list shows everything but it."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemode_server.cli import run
from codemode_server.mcp_server.auth.access_tokens import AccessTokens
from tests.behaviour.product import configuration


def command(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["tokens", *arguments, "--config", str(configuration(folder, {}))])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_a_token_is_printed_once_listed_without_it_and_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, token, _ = command(tmp_path, capsys, "create", "alice", "--expires", "never")
    assert code == 0
    tokens = AccessTokens(tmp_path / "state")
    assert tokens.identity_of(token.strip()) is not None
    (record,) = tokens.records()
    _, listed, _ = command(tmp_path, capsys, "list")
    assert f"{record.token_id}  alice" in listed
    assert "never expires" in listed
    assert token.strip() not in listed
    assert command(tmp_path, capsys, "revoke", record.token_id)[0] == 0
    assert tokens.identity_of(token.strip()) is None
    assert "there are no tokens" in command(tmp_path, capsys, "list")[1]


@pytest.mark.parametrize("name", ["../x", "Alice", "", "con"])
def test_a_name_that_is_none_gets_no_token(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, error = command(tmp_path, capsys, "create", name)
    assert (code, out) == (2, "")
    assert "PRINCIPAL" in error
    assert AccessTokens(tmp_path / "state").records() == []
