"""The requests of programs to one upstream: each waits for the open session, is sent once, and has a bounded wait.

The connection's owner task opens and closes sessions; requests run in the tasks of their callers.

Up to protocol 2025-11-25 a request of the upstream does not say which call it belongs to. It is taken to belong to the
newest call in flight, if all calls in flight are of one session of a host; otherwise it is refused, since it could
reach the user of another session. Outside of any call nothing is answered, except for the roots of the session that has
the connection for itself. In protocol 2026-07-28 requests are part of the answer to a call, so nothing has to be
guessed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from codemode_server.domain.calls import RetryReason
from codemode_server.domain.errors import (
    CallTimedOut,
    DecisionOutdated,
    SignInRequired,
    ToolFailed,
    UpstreamUnavailable,
)
from codemode_server.domain.input_requests import Feature, InputProvider, InputRefused, InputRequest
from codemode_server.upstreams.answers import Answer, ConnectionEnded, RequestFailed, TaskLost
from codemode_server.upstreams.failures import SessionExpired, call_error, outcome_unknown, required_addresses
from codemode_server.upstreams.progress import CallProgress
from codemode_server.upstreams.repairs import as_object, as_text
from codemode_server.upstreams.results import error_text
from codemode_server.upstreams.transports.registry import refusals

if TYPE_CHECKING:
    from codemode_server.upstreams.connection import Connection
    from codemode_server.upstreams.session import OnProgress, Session

logger = logging.getLogger(__name__)

T = TypeVar("T")
Read = Callable[[dict[str, Any]], T]
"""Converts a result, as the upstream sent it, to a value."""
MAX_ROUNDS = 20
"""How often one call may be answered with a request for input."""
MAX_REQUESTS_AT_ONCE = 10
_DONE_FORM: dict[str, Any] = {
    "mode": "form",
    "message": "Accept once you are done at the address that you opened.",
    "requestedSchema": {"type": "object", "properties": {}},
}
_MAX_ADDRESS_PAUSE_S = 15.0
"""Between two tries of a call whose person has opened an address and can't say that they are done."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.05, 1.0
_MIN_POLL_MS, _DEFAULT_POLL_MS, _MAX_POLL_MS = 100.0, 1_000.0, 30_000.0
_CANCEL_S = 2.0


@dataclass(eq=False, slots=True)
class CallInFlight:
    """One call on its way. `patience` is cancelled when the upstream was silent for `timeout_s`."""

    provider: InputProvider | None
    patience: anyio.CancelScope
    timeout_s: float
    _asked: int = field(default=0, init=False)

    def heard(self) -> None:
        """The upstream has reported something."""
        if not self._asked:
            self.patience.deadline = anyio.current_time() + self.timeout_s

    async def answer(self, request: InputRequest) -> dict[str, Any]:
        """Answer a request that belongs to this call; meanwhile the upstream's silence is not counted. Raises
        `InputRefused`: there is no answer."""
        if self.provider is None:
            raise InputRefused("nobody can be asked")
        self._asked += 1
        self.patience.deadline = float("inf")
        try:
            return await self.provider.answer(request)
        finally:
            self._asked -= 1
            self.heard()

    async def answer_all(self, requests: dict[str, Any]) -> dict[str, Any]:
        """Answer the requests in a result of protocol 2026-07-28, by their keys. Raises `ToolFailed`: one has no
        answer, or they are too many."""
        if len(requests) > MAX_REQUESTS_AT_ONCE:
            raise ToolFailed(f"the server asked for {len(requests):,} inputs at once; {MAX_REQUESTS_AT_ONCE} are taken")
        responses: dict[str, Any] = {}
        for key, request in requests.items():
            fields = request if isinstance(request, dict) else {}
            method, params = fields.get("method"), fields.get("params")
            try:
                if not isinstance(method, str):
                    raise InputRefused("the request has no method")
                responses[key] = await self.answer(InputRequest(method, params if isinstance(params, dict) else {}))
            except InputRefused as refusal:
                raise ToolFailed(f"the server asked for input and got none: {refusal}") from None
        return responses

    async def open_addresses(self, requests: list[dict[str, Any]], opened: set[str]) -> bool:
        """Ask the person to open the addresses, or, if all were opened before, to say that they are done; False if
        nobody can say that. Raises `ToolFailed`: the person does not want to, or can't be asked."""
        new = [it for it in requests if it["url"] not in opened]
        opened.update(it["url"] for it in new)
        if not new and (self.provider is None or Feature.ELICITATION not in self.provider.features):
            return False
        try:
            for params in new or [_DONE_FORM]:
                answer = await self.answer(InputRequest("elicitation/create", params))
                if answer.get("action") != "accept":
                    raise ToolFailed("the user did not finish what the server needs first, at an address to open")
        except InputRefused as refusal:
            if new:
                raise ToolFailed(f"the server needs the user to open an address first: {refusal}") from None
            return False
        return True


def configured_roots(paths: tuple[str, ...]) -> list[dict[str, str]]:
    """The folders of `servers.<name>.roots` as the protocol has them."""
    return [{"uri": Path(path).expanduser().absolute().as_uri(), "name": Path(path).name or path} for path in paths]


def call_asking(in_flight: Sequence[CallInFlight]) -> CallInFlight:
    """The call that a request of the upstream belongs to, of those under way, the oldest first. Raises `InputRefused`:
    there is none, or it can't be known."""
    if not in_flight:
        raise InputRefused("requests are answered only during a call")
    if len({call.provider.session_id if call.provider else "" for call in in_flight}) > 1:
        raise InputRefused(
            "calls of several sessions are under way, so it is not known whom this request is for; with "
            "`share: session` each has a connection of its own"
        )
    return in_flight[-1]


class Requests:
    """Calls of tools, reads of resources and gets of prompts over the sessions of one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._name = connection.name
        self._in_flight: list[CallInFlight] = []
        self._waiting: list[CallInFlight] = []
        """Calls that wait for the session to open, on a connection that is one session's own."""
        self._roots: dict[str, Any] | None = None
        """The roots that the host of that session has told last."""
        self.last_session: Session | None = None
        """The session of the last request; over another one, the server has lost its state in memory."""

    async def answer(self, request: InputRequest) -> dict[str, Any]:
        """Answer a request of an upstream of protocol 2025-11-25 or older, which belongs to a call. Raises
        `InputRefused`: there is no answer."""
        try:
            if request.feature is Feature.ROOTS:
                return await self._answer_roots(request)
            return await call_asking(self._in_flight).answer(request)
        except InputRefused as refusal:
            logger.info("upstream %r: its %s was refused: %s", self._name, request.method, refusal)
            raise

    async def _answer_roots(self, request: InputRequest) -> dict[str, Any]:
        """A server uses roots also in later calls, so a session whose roots it was told has the connection for itself
        from then on."""
        connection, calls = self._connection, self._in_flight or self._waiting
        await connection.listed_by.offers.note_roots()
        if not calls and not isinstance(connection.settings.roots, str):
            return {"roots": configured_roots(connection.settings.roots)}
        if not calls and self._roots is not None and connection.session_id:
            return self._roots
        call = call_asking(calls)
        if call.provider is not None and Feature.ROOTS in call.provider.features:
            connection.roots_session = call.provider.session_id
        self._roots = await call.answer(request)
        return self._roots

    async def send(
        self,
        method: str,
        params: dict[str, Any],
        what: str,
        read: Read[T],
        progress: CallProgress | None,
        revision: int | None,
        definition: str = "",
    ) -> T:
        """Send a request and return what `read` makes of its result, in a thread if that is large. Cancelling this
        cancels it at the server. `what` names its object in messages; `progress`, `revision` and `definition` are as
        for `pool.RoutedCalls`.

        Raises:
            DecisionOutdated, SignInRequired: nothing was sent.
            UpstreamUnavailable: the upstream is not connected, or was lost while the call was on its way.
            CallTimedOut: neither an answer nor a progress report for the server's `timeout`, once it has started.
            ToolFailed, ResultTooLarge: the upstream answered with a protocol error, or with what can't be taken.
        """
        progress, why = progress or CallProgress(), SessionExpired()
        for _ in range(2):
            session = await self._ready_session(revision, progress)
            listed = self._connection.listed_by.offers.digests
            if definition and listed.get(params["name"], definition) != definition:
                raise DecisionOutdated(f"server {self._name!r} has changed {what} meanwhile")
            if self.last_session not in (None, session):
                progress.restart = "restarted" if self._connection.starts_process else "reconnected"
            self.last_session = session
            progress.begin_attempt()
            try:
                answer = await self._answered(session, method, params, what, progress)
            except SessionExpired as expired:
                why = expired
                progress.retry_reason = RetryReason.EXPIRED_SESSION
                session.lost.set()
            else:
                return await answer.read(read)
        raise UpstreamUnavailable(f"server {self._name!r} keeps forgetting its sessions ({why}); nothing was called")

    async def _ready_session(self, revision: int | None, progress: CallProgress) -> Session:
        if not self._connection.session_id:
            return await self._connection.ready_session(revision)
        # A server may ask for roots before it is ready, and nobody but this session's host can answer.
        call = CallInFlight(progress.input_provider, anyio.CancelScope(), self._connection.settings.timeout)
        self._waiting.append(call)
        try:
            return await self._connection.ready_session(revision)
        finally:
            self._waiting.remove(call)

    async def _answered(
        self, session: Session, method: str, params: dict[str, Any], what: str, reported: CallProgress
    ) -> Answer:
        timeout_s = self._connection.settings.timeout
        refused: list[str] = []
        token = refusals.set(refused)
        try:
            with anyio.move_on_after(timeout_s) as patience:
                call = CallInFlight(reported.input_provider, patience, timeout_s)
                self._in_flight.append(call)
                try:
                    return await self._exchange(session, call, method, params, reported)
                finally:
                    self._in_flight.remove(call)
        except RequestFailed as error:
            why_lost = ""
            if isinstance(error, ConnectionEnded):
                session.lost.set()
                why_lost = await self._connection.why_lost(session)
            is_unsent = refused and refused[-1].startswith("401") and not isinstance(error, TaskLost)
            if is_unsent and (tokens := self._connection.deps.tokens) is not None:
                if not self._in_flight:  # the others get their answers, or their own 401
                    session.lost.set()
                reason = tokens.problem or f"answered with HTTP {refused[-1]}"
                problem = error_text(reason, self._connection.deps.redactor())
                error_class = SignInRequired if tokens.needs_person else UpstreamUnavailable
                raise error_class(f"server {self._name!r} {problem}; nothing was called") from error
            raise call_error(error, self._name, what, refused, self._connection.deps.config, why_lost) from error
        finally:
            refusals.reset(token)
        raise CallTimedOut(
            f"server {self._name!r} neither answered nor reported progress for {timeout_s:g} s"
            f" (servers.{self._name}.timeout in upstream.yaml); {outcome_unknown(what)}"
        )

    async def _exchange(
        self, session: Session, call: CallInFlight, method: str, params: dict[str, Any], reported: CallProgress
    ) -> Answer:
        def take_progress(progress: float, total: float | None, message: str | None) -> None:
            reported.take(progress, total, message, anyio.current_time(), self._connection.deps.redactor())
            call.heard()

        features = call.provider.features if call.provider is not None else frozenset()
        more, pause_s, opened = dict[str, Any](), _FIRST_PAUSE_S, set[str]()
        for rounds_left in reversed(range(MAX_ROUNDS)):
            try:
                answer = await session.request(method, {**params, **more}, take_progress, features)
            except RequestFailed as error:
                addresses = required_addresses(error) if Feature.URL in features else []
                if not (addresses and rounds_left):
                    raise
                if not await call.open_addresses(addresses, opened):
                    pause_s = min(max(1.0, 2 * pause_s), _MAX_ADDRESS_PAUSE_S)
                    await anyio.sleep(pause_s)
                call.heard()
                continue
            if not answer.requires_input:
                return await _task_result(session, answer, features, take_progress) if "task" in params else answer
            required = await answer.read(lambda result: result)
            requests, state = required.get("inputRequests"), required.get("requestState")
            more = {"requestState": state} if isinstance(state, str) else {}
            if requests and isinstance(requests, dict):
                more["inputResponses"], pause_s = await call.answer_all(requests), _FIRST_PAUSE_S
            else:  # the server has nothing to ask yet
                await anyio.sleep(pause_s)
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)
        raise ToolFailed(f"the server asked for input {MAX_ROUNDS} times without a result")


async def _task_result(session: Session, created: Answer, features: frozenset[Feature], heard: OnProgress) -> Answer:
    """The result of the task with which the server has answered a call (protocol 2025-11-25), which is polled, and
    cancelled with this. `heard` gets the messages of its status. Raises as `Session.request`, and `TaskLost`;
    `ToolFailed`: the task has no id."""
    answered = await created.read(lambda result: result)
    if "task" not in answered:
        return Answer(answered)
    task = as_object(answered["task"])
    identity = {"taskId": task.get("taskId")}
    if not isinstance(identity["taskId"], str):
        raise ToolFailed("the server answered with a task without taskId")
    is_over = False
    try:
        while task.get("status") == "working":
            pause = task.get("pollInterval")
            pause = pause if isinstance(pause, int | float) else _DEFAULT_POLL_MS
            await anyio.sleep(min(_MAX_POLL_MS, max(_MIN_POLL_MS, pause)) / 1e3)  # in this order NaN is the minimum
            task = as_object(
                await (await session.request("tasks/get", {**identity}, None, features)).read(lambda it: it)
            )
            heard(0.0, None, as_text(task.get("statusMessage")))
        # A task that needs input asks while its result is waited for.
        answer = await session.request("tasks/result", {**identity}, heard, features)
    except RequestFailed as error:
        if refused := refusals.get():
            raise TaskLost(error.code, refused[-1]) from error
        if task.get("status") != "working" or isinstance(error, ConnectionEnded):  # the error is the task's result
            raise
        raise TaskLost(error.code, error.message) from error
    else:
        is_over = True
        return answer
    finally:
        if not is_over:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CANCEL_S), suppress(RequestFailed):
                await session.request("tasks/cancel", {**identity}, None, features)
