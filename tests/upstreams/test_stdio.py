"""Our stdio transport against real processes: noise, size, stderr, and an end in under two seconds."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from codemode_server.config.settings import ServerSettings
from codemode_server.domain.tools import UpstreamState, without_output
from codemode_server.processes.orphan_reaper import Reaper
from codemode_server.upstreams.messages import parse_line
from codemode_server.upstreams.session import Session
from codemode_server.upstreams.transports.stdio import StdioSettings, StdioTransport
from tests.processes import all_gone
from tests.upstreams.kit import QUICK, Kit


async def test_noise_is_passed_over_and_does_not_reach_our_own_output(
    kit: Kit, capfd: pytest.CaptureFixture[str]
) -> None:
    """@azure/mcp prints plain text, @twilio-alpha/mcp a JSON-RPC request of a method of its own. Our stdout belongs to
    the host's protocol, and stderr to the host's log."""
    async with kit.pool({"s": kit.raw("shouting"), "n": kit.raw("noisy"), "e": kit.raw("exits")}) as pool:
        assert (await pool.call_tool("n", "a", {})).value == "ok"
    assert capfd.readouterr() == ("", "")


async def test_a_server_that_exits_at_once_is_quoted_without_its_secrets(kit: Kit) -> None:
    secret = "hunter2-hunter2"
    async with kit.pool({"s": kit.raw("exits", env={"PROBE_KEY": secret})}, secrets=[secret]) as pool:
        listing = kit.listing(pool, "s")
        assert listing.state is UpstreamState.FAILED
        assert listing.error == ("exited with code 2; its stderr ends with:\nfatal: no API key; got PROBE_KEY=***")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (
            ServerSettings(command="no-such-program"),
            "can't be started: there is no program 'no-such-program' on the PATH; install it or give its full path",
        ),
        (
            ServerSettings(command="/no/such"),
            "can't be started: there is no program '/no/such'; correct the path, or install it",
        ),
        (
            ServerSettings(command="uvx mcp-server-time"),
            "can't be started: there is no program 'uvx mcp-server-time'; if 'uvx' is the program, put the rest in "
            "`args`",
        ),
        (
            ServerSettings(command=__file__),
            f"can't be started: {__file__!r} may not be run (Permission denied); `chmod +x` allows it",
        ),
        (ServerSettings(command="/"), "can't be started: '/' is a folder"),
        (ServerSettings(command=sys.executable, cwd="/no/such"), "can't be started: there is no folder '/no/such'"),
    ],
)
async def test_what_cannot_be_started_says_why(kit: Kit, settings: ServerSettings, error: str) -> None:
    async with kit.pool({"s": settings}) as pool:
        assert kit.listing(pool, "s").error == error


def without_network_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if re.search("proxy|cert|ca_bundle|uv_", name, re.IGNORECASE):
            monkeypatch.delenv(name)


async def test_a_server_that_says_nothing_is_explained_on_demand(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    without_network_variables(monkeypatch)
    server = ServerSettings(command="sleep", args=("600",))
    async with kit.pool({"s": server}, settled=False) as pool:
        await kit.until(lambda: kit.listing(pool, "s").state is UpstreamState.CONNECTING)
        assert kit.listing(pool, "s").error is None
        pool.explain_delays()
        assert kit.listing(pool, "s").error == (
            "has not answered the handshake and tools/list for 0 s; it has written nothing"
        )


async def test_a_server_that_is_none_is_quoted_without_its_secrets(kit: Kit) -> None:
    server = ServerSettings(command="sh", args=("-c", "echo 'Hello from hunter2-hunter2'; cat >&2"))
    timings = replace(QUICK, connect_s=3)
    async with kit.pool({"s": server}, secrets=["hunter2-hunter2"], timings=timings) as pool:
        error = kit.listing(pool, "s").error or ""
        assert error.startswith(
            "did not get through the handshake and tools/list in time; is it an MCP server, and does it log to stderr?"
            "; its stdout began with: 'Hello from ***'; its stderr ends with:\n"
        )
        assert without_output(error).endswith("log to stderr?"), "what is said of a protected server"


@pytest.mark.parametrize(
    ("said", "given", "is_told"),
    [
        ("invalid peer certificate: UnknownIssuer", {}, True),
        ("invalid peer certificate: UnknownIssuer", {"SSL_CERT_FILE": "/ca.pem"}, False),
        ("no licence found", {}, False),
    ],
)
async def test_a_failure_of_the_network_comes_with_the_variables_that_the_server_lacks(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, said: str, given: dict[str, str], *, is_told: bool
) -> None:
    """They are in the shell of the person, and a server gets few of those."""
    without_network_variables(monkeypatch)
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ours.pem")
    server = ServerSettings(command="sh", args=("-c", f"echo '{said}' >&2; exit 1"), env=given)
    async with kit.pool({"s": server}) as pool:
        hint = (
            " (SSL_CERT_FILE: set here, but not for this server; `codemode-server import --env` gives them to all "
            "servers)"
        )
        assert kit.listing(pool, "s").error == (
            f"exited with code 1{hint if is_told else ''}; its stderr ends with:\n{said}"
        )


async def test_a_child_gets_its_folder_and_its_own_variables_and_few_of_ours(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our environment holds the other servers' credentials."""
    monkeypatch.setenv("SECRET_OF_OURS", "1")
    server = kit.raw("environment", Path("log"), env={"PROBE": "yes"}, cwd=str(tmp_path))
    async with kit.pool({"s": server}) as pool:
        environment = (await pool.call_tool("s", "a", {})).value
        assert environment["PROBE"] == "yes"
        assert "PATH" in environment
        assert "SECRET_OF_OURS" not in environment
        assert (tmp_path / "log").exists()


async def test_a_result_of_many_mib_takes_time_in_proportion_to_its_size(kit: Kit) -> None:
    """mcp's own transport takes 57 s for 40 MiB: it copies what it has for each piece of a line."""
    async with kit.pool({"s": kit.raw("huge_line")}, call_bytes=2**26) as pool:
        with anyio.fail_after(40):
            assert len((await pool.call_tool("s", "a", {"mib": 40})).value) == 40 * 2**20


async def test_the_bound_on_a_message_holds_before_its_end(kit: Kit) -> None:
    reaper = Reaper()
    program = "print('x' * 5000, end='', flush=True); input()"
    endless = StdioSettings(command=sys.executable, args=("-c", program))
    transport = StdioTransport(endless, reaper, max_message_bytes=lambda: 1024)
    try:
        async with transport.open() as channel:
            with anyio.fail_after(60):
                await channel.deliver_to(Session(channel, None))  # type: ignore[arg-type]
    finally:
        await reaper.aclose()
    assert transport.why_ended() == "sent a message of more than 0.000976562 MiB"


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (b"", 0),
        (b"hello", 0),
        (b'"hello"', 0),
        (b'{"level":"info"}', 0),
        (b"[" * 100_000, 0),
        (b'{"jsonrpc":"2.0","id":true,"result":{}}', 0),
        (b'{"id":1,"result":null}', 1),
        (b'{"jsonrpc":"2.0","id":1}', 1),
        (b'{"id":1,"msg":"a log"}', 0),
        (b'{"jsonrpc":"2.0","id":1,"error":"oh"}', 1),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1.5}}', 1),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xff"}}', 1),
        (b'{"jsonrpc":"2.0","method":"x","params":[1]}', 1),
        (b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]', 2),
    ],
)
def test_a_line_is_read_for_what_it_plainly_means(line: bytes, read: int) -> None:
    assert len(parse_line(line)) == read


TOO_DEEP = b"[" * 600 + b"]" * 600
TOO_MANY = b"[" + b'{"id":9,"x":[]},' * 200_000 + b"0]"
LONG = b'{"x":"' + b"x" * 5_000 + b'"}'


@pytest.mark.parametrize("result", [TOO_DEEP, TOO_MANY])
@pytest.mark.parametrize(
    ("line", "answered"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"x":RESULT}}', [7]),
        (b'{"jsonrpc":"2.0","result":{"x":RESULT},"id":"a"}', ["a"]),
        (b'{"params":{"x":RESULT},"id":7,"method":"x","_meta":LONG}', []),
        (b'{"result":{"x":RESULT}},"id":7,"_meta":LONG}', []),
    ],
)
def test_an_answer_that_is_too_much_is_one_to_the_call_of_its_own_id(
    line: bytes, result: bytes, answered: list[int | str]
) -> None:
    """The ids of what is in the result are others."""
    whole = line.replace(b"RESULT", result).replace(b"LONG", LONG)
    assert [getattr(message, "id", None) for message in parse_line(whole)] == answered


async def test_a_cancelled_start_leaves_no_process(kit: Kit, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    with anyio.move_on_after(60) as scope:
        async with kit.pool({"s": kit.raw("stubborn", file)}, settled=False):
            await kit.until(file.exists)
            scope.cancel()
    await all_gone(*map(int, file.read_text().split()))
