"""Threat: another user of the machine reaches `serve --http`, since every user can connect to loopback.

Rule: without the token in a private file of the person's nothing is answered or started; half-open connections cost
neither the service nor the disk. The product is a process of its own, with a destructive tool behind it.
"""

from __future__ import annotations

import json
import stat
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.mcp_server import http_token
from tests.attacks.kit import arrived, hostile
from tests.behaviour.product import configuration, in_memory
from tests.hosts.kit import Served, http_host, serving

HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "eve", "version": "1"}}
PROGRAM = {"name": "execute_code", "arguments": {"code": "from servers.plain import act\nact(how='ping')"}}


def asked(served: Served, method: str, params: dict[str, Any], verb: str = "POST", **headers: str) -> tuple[int, str]:
    """How a request is answered that brings these headers."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    own = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    with closing(HTTPConnection("127.0.0.1", served.port, timeout=60)) as connection:
        connection.request(verb, "/mcp", body, own | {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


async def test_another_user_of_the_machine_gets_no_session_and_can_use_none(tmp_path: Path) -> None:
    with serving(configuration(tmp_path, hostile(tmp_path, "plain"))) as served:
        for verb in ("POST", "GET", "DELETE", "OPTIONS"):
            refused, text = asked(served, "initialize", HANDSHAKE, verb)
            assert refused == 401
            assert str(tmp_path / "data" / "codemode-server" / "http-token") in text
            assert served.token not in text
        async with http_host(served, tmp_path, "legacy") as person:
            assert (await person.run(PROGRAM["arguments"]["code"])).value == "pong", "the control"  # type: ignore[index]
            (session,) = person.issued
            for stolen in ({}, {"Authorization": "Bearer " + "x" * 43}, {"Authorization": f"Bearer {session}"}):
                headers = {"mcp_session_id": session, "mcp_protocol_version": "2025-11-25", **stolen}
                assert asked(served, "tools/call", PROGRAM, **headers)[0] == 401
                modern = {"mcp_protocol_version": "2026-07-28", **stolen}
                assert asked(served, "tools/call", PROGRAM, **modern)[0] == 401
        assert arrived(tmp_path, "plain") == ["act"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's data folder."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path / "codemode-server"


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.usefixtures("data")
async def test_the_token_is_masked_in_results_and_in_what_programs_print(tmp_path: Path, *, is_there: bool) -> None:
    token = http_token.token() if is_there else "x" * 43
    async with in_memory(configuration(tmp_path, {})) as host:
        answer = await host.run(f"print({token!r})\nreturn {{'shown': 'Bearer ' + {token!r}}}")
    assert answer.value == {"shown": f"Bearer {'***' if is_there else token}"}
    assert (token in answer.text) is not is_there


def test_the_token_is_private_and_stays_until_a_new_one_is_asked_for(data: Path) -> None:
    first = http_token.token()
    assert len(first) >= 43
    assert stat.S_IMODE(http_token.token_file().stat().st_mode) == 0o600
    assert http_token.token() == first
    second = http_token.token(is_new=True)
    assert http_token.token() == second != first
    assert [path.name for path in data.iterdir()] == ["http-token"]


def test_a_token_that_others_could_read_or_behind_a_link_is_not_used(data: Path) -> None:
    first = http_token.token()
    http_token.token_file().chmod(0o644)
    with pytest.raises(SettingsError, match=r"others could read the token .*--new-token"):
        http_token.token()
    assert http_token.token(is_new=True) not in ("", first), "the control"
    http_token.token_file().unlink()
    (data / "known").write_text("k" * 43)
    for target in ("known", "nowhere"):
        http_token.token_file().symlink_to(data / target)
        with pytest.raises(CodemodeError, match="is a link"):
            http_token.token()
        http_token.token_file().unlink()
        assert not (data / "nowhere").exists()
