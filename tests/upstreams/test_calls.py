"""Calls to one upstream: side by side, cut short, refused, lost, traced. Each with a real server behind it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import ServerSettings
from codemode_server.domain.errors import AnswerLost, CallTimedOut, ToolFailed, UnknownTool, UpstreamUnavailable
from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest
from codemode_server.support.redaction import Redactor
from codemode_server.upstreams.answers import ConnectionEnded, RequestFailed
from codemode_server.upstreams.failures import call_error, reason_in
from codemode_server.upstreams.messages import unreadable
from codemode_server.upstreams.progress import CallProgress
from codemode_server.upstreams.transports.registry import NOT_SENT
from tests.upstreams.kit import QUICK, Kit

BOTH_ERAS = pytest.mark.parametrize("protocol", ["auto", "legacy"])


@BOTH_ERAS
async def test_calls_overlap_on_one_connection(kit: Kit, protocol: str) -> None:
    """`meet` returns only when a second call of it is there."""
    async with kit.pool({"s": kit.modern(protocol=protocol)}) as pool, anyio.create_task_group() as tasks:
        values: list[Any] = []

        async def meet() -> None:
            values.append((await pool.call_tool("s", "meet", {})).value)

        tasks.start_soon(meet)
        tasks.start_soon(meet)
    assert values == ["met", "met"]


@BOTH_ERAS
async def test_a_call_that_takes_too_long_ends_here_and_there(kit: Kit, tmp_path: Path, protocol: str) -> None:
    log = tmp_path / "log"
    async with kit.pool({"s": kit.modern(log, protocol=protocol, timeout=2.0)}) as pool:
        with pytest.raises(CallTimedOut, match=r"neither answered nor reported progress for 2 s .*not known"):
            await pool.call_tool("s", "hang", {})
        await kit.until(lambda: log.exists() and log.read_text().split("\n")[:2] == ["hang started", "hang cancelled"])
        assert (await pool.call_tool("s", "add", {"a": 1, "b": 1})).value == 2


@BOTH_ERAS
async def test_cancelling_our_task_cancels_the_call_at_the_server(kit: Kit, tmp_path: Path, protocol: str) -> None:
    log = tmp_path / "log"
    async with kit.pool({"s": kit.modern(log, protocol=protocol)}) as pool, anyio.create_task_group() as tasks:
        tasks.start_soon(pool.call_tool, "s", "hang", {})
        await kit.until(log.exists)
        tasks.cancel_scope.cancel()
    await kit.until(lambda: "hang cancelled" in log.read_text())


HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    ("report", "fraction"),
    [
        ('"progress":1,"total":4', 0.25),
        ('"progress":1,"total":4,"progressToken":"TOKEN"', 0.25),
        (f'"progress":{HUGE}', None),
        (f'"progress":1,"total":{HUGE}', None),
        (f'"progress":-{HUGE},"total":{HUGE}', None),
        ('"progress":NaN,"total":4', None),
        ('"progress":1,"total":0', None),
        ('"progress":5,"total":4', 1.0),
        ('"progress":1e308,"total":5e-324', 1.0),
    ],
)
async def test_no_number_of_a_progress_report_ends_the_connection(
    kit: Kit, caplog: pytest.LogCaptureFixture, report: str, fraction: float | None
) -> None:
    """mcp makes a float of it in its read loop, which an integer of 401 digits ends."""
    progress = CallProgress()
    async with kit.pool({"s": kit.raw("reporting", protocol="legacy")}) as pool:
        first = (await pool.call_tool("s", "a", {"reports": [report]}, progress=progress)).value
        shown = progress.fraction
        after = '"progress":1,"total":2'
        second = (await pool.call_tool("s", "a", {"reports": [report, after]}, progress=progress)).value
    assert first == second, "it is the same process still"
    assert shown == fraction
    assert progress.fraction == 0.5, "the next report counts"
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


@BOTH_ERAS
async def test_each_progress_report_extends_the_timeout(kit: Kit, protocol: str) -> None:
    async with kit.pool({"s": kit.modern(protocol=protocol, timeout=2)}) as pool:
        assert (await pool.call_tool("s", "work", {"steps": 6, "seconds": 0.5})).value == "worked"
        with pytest.raises(CallTimedOut, match=r"servers\.s\.timeout"):  # control: as long, without a report
            await pool.call_tool("s", "work", {"steps": 1, "seconds": 3.0})


@BOTH_ERAS
async def test_the_servers_error_reaches_the_caller_cleaned(kit: Kit, protocol: str) -> None:
    async with kit.pool({"s": kit.modern(protocol=protocol)}) as pool:
        with pytest.raises(ToolFailed, match="the red thing broke"):
            await pool.call_tool("s", "fails", {})
        with pytest.raises(ToolFailed, match="nonesuch"):
            await pool.call_tool("s", "nonesuch", {})


async def test_a_protocol_error_is_the_tools_failure_cleaned_and_bounded(kit: Kit) -> None:
    async with kit.pool({"s": kit.raw("refusing")}) as pool:
        with pytest.raises(ToolFailed, match=r"^no way x+… ") as raised:
            await pool.call_tool("s", "a", {})
        assert len(str(raised.value)) < 2_100


@dataclass
class Opener:
    """Implements `InputProvider`: a person who opens addresses, and answers `answer` to everything."""

    features: frozenset[Feature]
    action: str = "accept"
    session_id: str = "s"
    seen: list[str] = field(default_factory=list)

    async def answer(self, request: InputRequest) -> dict[str, Any]:
        self.seen.append(request.params.get("url") or request.params["message"])
        if request.feature not in self.features:
            raise InputRefused("not shown")
        return {"action": self.action}


ONE, TWO, BOTH = "https://one.example/in", "https://two.example/in", {Feature.URL, Feature.ELICITATION}
DONE = "Accept once you are done at the address that you opened."


@pytest.mark.parametrize(
    ("rounds", "features", "seen", "value"),
    [
        ([[ONE]], {Feature.URL}, [ONE], "ok"),
        ([[ONE, TWO]], {Feature.URL}, [ONE, TWO], "ok"),
        ([[ONE], [TWO]], {Feature.URL}, [ONE, TWO], "ok"),
        ([[ONE], [ONE]], {Feature.URL}, [ONE], "ok"),
        ([[ONE], [ONE], [ONE]], BOTH, [ONE, DONE, DONE], "ok"),
        ([[ONE]] * 21, BOTH, [ONE, *[DONE] * 18], "in the log of codemode-server"),
        ([[ONE], "form"], BOTH, [ONE, "Which?"], "asked"),
        ([[ONE]], {Feature.ELICITATION}, [], "in the log of codemode-server"),
        ([[]], BOTH, [], "Sign in first"),
    ],
)
async def test_a_call_is_repeated_once_the_user_has_opened_what_the_server_needs(
    kit: Kit, rounds: list[Any], features: set[Feature], seen: list[str], value: str
) -> None:
    """Error -32042. Without a form the server is tried again after a pause, where it is not content yet."""
    person = Opener(frozenset(features))
    async with kit.pool({"s": kit.raw("address")}) as pool:
        try:
            progress = CallProgress(input_provider=person)
            came = (await pool.call_tool("s", "a", {"rounds": rounds}, progress=progress)).value
        except ToolFailed as error:
            came = str(error)
    assert value in came
    assert person.seen == seen


async def test_a_call_whose_address_the_user_does_not_open_fails(kit: Kit) -> None:
    progress = CallProgress(input_provider=Opener(frozenset(BOTH), action="decline"))
    async with kit.pool({"s": kit.raw("address")}) as pool:
        with pytest.raises(ToolFailed, match="did not finish"):
            await pool.call_tool("s", "a", {"rounds": [[ONE]]}, progress=progress)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("promising", "ok"),
        ("odd_content", [{"type": "json", "value": {"type": "weird", "x": 1}}]),
        ("no_content", {"foo": 1}),
        ("null_result", None),
    ],
)
async def test_a_result_off_the_schema_is_still_a_result(kit: Kit, kind: str, value: Any) -> None:
    """mcp raises for each: no structuredContent despite an outputSchema, an unknown content type, no content."""
    async with kit.pool({"s": kit.raw(kind)}) as pool:
        assert (await pool.call_tool("s", "a", {})).value == value


async def test_only_the_call_itself_is_sent(kit: Kit, tmp_path: Path) -> None:
    """mcp's first call of a tool with an outputSchema lists all tools again in between."""
    log = tmp_path / "log"
    async with kit.pool({"s": kit.raw("promising", log)}) as pool:
        await pool.call_tool("s", "a", {})
    assert log.read_text().split()[-3:] == ["notifications/initialized", "tools/list", "tools/call"]


async def test_what_is_not_there_is_refused_with_the_reason(kit: Kit) -> None:
    servers = {"gone": kit.raw("exits"), "off": kit.raw("plain", enabled=False)}
    async with kit.pool(servers) as pool:
        with pytest.raises(UpstreamUnavailable, match=r"(?s)'gone' is not connected: exited with code 2.*no API key"):
            await pool.call_tool("gone", "a", {})
        with pytest.raises(UpstreamUnavailable, match=r"disabled in upstream\.yaml"):
            await pool.call_tool("off", "a", {})
        with pytest.raises(UnknownTool, match="'gone', 'off'"):
            await pool.call_tool("nobody", "a", {})


async def test_a_call_to_a_failed_server_tries_it_again_at_once(kit: Kit, tmp_path: Path) -> None:
    """The person has just mended it; the pause before the next try may be a minute."""
    program = tmp_path / "server"
    timings = replace(QUICK, backoff_first_s=60, backoff_most_s=60)
    async with kit.pool({"s": ServerSettings(command=str(program))}, timings=timings) as pool:
        assert kit.listing(pool, "s").error == (
            f"can't be started: there is no program {str(program)!r}; correct the path, or install it"
        )
        mended = kit.raw("plain")
        program.write_text(f"#!/bin/sh\nexec {mended.command} {' '.join(mended.args)}\n")
        program.chmod(0o755)
        assert (await pool.call_tool("s", "a", {})).value == "ok"


@BOTH_ERAS
async def test_changed_tools_are_listed_again_and_told_of(kit: Kit, protocol: str) -> None:
    changes: list[int] = []
    async with kit.pool({"s": kit.modern(protocol=protocol)}, on_change=lambda: changes.append(1)) as pool:
        before = len(changes)
        await pool.call_tool("s", "grow", {})
        await kit.until(lambda: "grown" in [tool.name for tool in kit.listing(pool, "s").tools])
        assert len(changes) > before
        assert (await pool.call_tool("s", "grown", {})).value == "here"
    assert "grown" in [tool.name for tool in kit.cache.kept["s"][1].tools]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"message": "project 9 is locked"}', "project 9 is locked"),
        (b'{"error": {"code": 7, "message": "no such door"}}', "no such door"),
        (b'{"detail": [{"loc": ["body", "a"], "msg": "missing"}]}', '[{"loc": ["body", "a"], "msg": "missing"}]'),
        (b'{"code": 12}', '{"code": 12}'),
        (b'{"trace": [%s"x"], "message": "tok-live-secret is late"}' % (b'"a", ' * 8_000), "*** is late"),
        (
            b"<html><head><style>p {}</style><title>Busy</title></head><p>Come &amp; go</p>",
            "Busy Come & go",
        ),
        (b"no way<SCRIPT>a < b</SCRIPT > in" + b"<script " * 2_400, "no way in"),
        (b"  plain\n text ", "plain text"),
        (b"", ""),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ""),
        (b"x" * 490 + b" tok-live-secret", "x" * 490 + " ***"),
        (b"<p>" * 6664 + b"no: tok-live-secret</p>", "no: ***"),
        # A body of 64 KiB was cut, perhaps within a secret.
        (("<style>" + "\U0001f600" * 16_357 + "</style>no way" + " " * 74 + "tok-live-secr").encode(), "no way"),
    ],
)
def test_the_body_of_an_http_error_says_why(body: bytes, reason: str) -> None:
    assert reason_in(body, Redactor(["tok-live-secret"])) == reason


CLOSED = ConnectionEnded().message
HTTP = "Server returned an error response"


@pytest.mark.parametrize(
    ("message", "data", "refused", "kind", "said"),
    [
        ("Invalid", {"field": "a"}, "", ToolFailed, 'Invalid: {"field": "a"}'),
        ("Invalid", ["a", 1], "", ToolFailed, 'Invalid: ["a", 1]'),
        ("Invalid", 17, "", ToolFailed, "Invalid: 17"),
        ("Invalid", False, "", ToolFailed, "Invalid: false"),
        ("", {"field": "a"}, "", ToolFailed, '{"field": "a"}'),
        ("Invalid: a is odd", "a is odd", "", ToolFailed, "Invalid: a is odd"),
        (HTTP, None, "403 Forbidden: not yours", ToolFailed, "server 's' answered with HTTP 403 Forbidden: not yours"),
        (HTTP, None, "429 Busy: Retry-After: 7", ToolFailed, "answered with HTTP 429 Busy: Retry-After: 7"),
        (HTTP, None, "502 Bad Gateway", AnswerLost, "HTTP 502 Bad Gateway; whether tool 'a' acted is not known"),
        (HTTP, None, "408 Timeout", AnswerLost, "whether tool 'a' acted is not known"),
        (CLOSED, None, f"{NOT_SENT}no route", UpstreamUnavailable, "can't be reached: no route; nothing was called"),
        (CLOSED, None, "", AnswerLost, "whether tool 'a' acted is not known; it exited with code 4"),
    ],
)  # fmt: skip
def test_a_failure_says_what_the_server_said_and_whether_the_tool_may_have_acted(
    message: str, data: Any, refused: str, kind: type[Exception], said: str
) -> None:
    error = ConnectionEnded() if message == CLOSED else RequestFailed(-32000, message, data)
    why_lost = "exited with code 4"
    failure = call_error(error, "s", "tool 'a'", [refused] if refused else [], LiveConfig(), why_lost)
    assert type(failure) is kind
    assert str(failure).endswith(said)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"error": "session store is down"}', " message: session store is down;"),
        (b"<html><title>Sign in</title></html>", " message: Sign in;"),
        (b"x" * 30_000 + b"tok-live-secret", " message: xxx"),
        (b"", " message;"),
    ],
)
def test_an_answer_without_a_message_may_follow_what_the_tool_did(body: bytes, why: str) -> None:
    error = unreadable(7, body).error
    failure = call_error(RequestFailed(error.code, error.message), "s", "tool 'a'", [], LiveConfig())
    assert type(failure) is AnswerLost
    assert why in str(failure)
    assert str(failure).endswith("; whether tool 'a' acted is not known")


async def test_a_process_that_ends_during_a_call_says_why(kit: Kit) -> None:
    async with kit.pool({"s": kit.raw("last_words")}) as pool:
        with pytest.raises(AnswerLost, match=r"(?s)acted is not known; it exited with code 5.*disk is full"):
            await pool.call_tool("s", "a", {})


async def test_a_tool_that_is_called_as_a_task_gives_its_result_or_its_error(kit: Kit, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with kit.pool({"s": kit.raw("tasks", log)}) as pool:
        call = partial(pool.call_tool, "s", arguments={}, needs_task=True)
        assert [(await call(tool)).value for tool in ("works", "direct")] == ["works", "direct"]
        with pytest.raises(ToolFailed, match=r"^fails$"):
            await call("fails")
        seen = log.read_text().count("tasks/get")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "hangs")
            await kit.until(lambda: log.read_text().count("tasks/get") > seen)
            tasks.cancel_scope.cancel()
        await kit.until(lambda: log.read_text().endswith("tasks/cancel\n"))
