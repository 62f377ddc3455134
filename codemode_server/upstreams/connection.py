"""One upstream: its owner task connects it, lists its tools, lists them again when they change, and reconnects.

The owner task enters and leaves all context managers, as anyio's scopes demand. `requests` come from other tasks and
share its session; they influence the connection only by `_nudge` (reconnect now) and `Session.lost` (this one is dead).
"""

from __future__ import annotations

import logging
import math
import random
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskStatus

from codemode_server.config.settings import ServerSettings
from codemode_server.domain.errors import DecisionOutdated, SignInRequired, UpstreamUnavailable
from codemode_server.domain.input_requests import Feature
from codemode_server.domain.tools import UpstreamListing, UpstreamState
from codemode_server.support.change_signal import ChangeSignal
from codemode_server.support.trace_provider import leave_trace, span_around
from codemode_server.upstreams.auth.sign_ins import Show
from codemode_server.upstreams.changes import Relisting, listen_for_changes
from codemode_server.upstreams.connection_deps import ConnectionDeps
from codemode_server.upstreams.failures import first_cause, why_not_connected, why_not_ready
from codemode_server.upstreams.known_offers import KnownOffers
from codemode_server.upstreams.negotiation import ProbeEndedConnection, negotiate
from codemode_server.upstreams.requests import Requests
from codemode_server.upstreams.transports.registry import Transport, refusals, transport_of

if TYPE_CHECKING:
    from codemode_server.upstreams.session import Session

logger = logging.getLogger(__name__)

_JUST_ENDED = "the connection ended"
_ADJUSTABLE = ("timeout", "concurrent_writes", "tools", "effects", "labels", "description", "share")
"""Settings that need no new connection."""
_CLOSING_S = 2.0
"""Longest wait of a lost call for the last words of a server that ends."""


class Connection:
    """One upstream, from its cached listing on. `run` is its owner task."""

    def __init__(
        self,
        name: str,
        settings: ServerSettings,
        deps: ConnectionDeps,
        *,
        listed_by: Connection | None = None,
        folder: str = "",
        session_id: str = "",
    ) -> None:
        """`listed_by`: the connection whose tools programs see; None: this one. `folder`: where the server works, if
        its settings leave it to the host. `session_id`: the host's session that alone uses this connection, if it is
        one's own."""
        self.name = name
        self.listed_by = listed_by or self
        self.folder = folder
        self.session_id = session_id
        self.roots_session = ""
        """The session whose roots the server has been told in a call, though others could use this connection."""
        self.settings = settings
        """Those in force."""
        self._spec = transport_of(settings)
        self.starts_process = self._spec.starts_process
        """True if the upstream is a process of ours."""
        self.deps = deps = deps.for_server(name, settings)
        self._timings = deps.timings
        self.offers = KnownOffers(name, settings, deps)
        self._state = UpstreamState.WAITING if settings.enabled else UpstreamState.DISABLED
        self._error: str | None = None
        self._session: Session | None = None
        self._starting: tuple[Transport, float] | None = None
        """The transport that is being opened, and since when."""
        self._changed = ChangeSignal()
        self._nudge = anyio.Event()
        self._nudged_at = -math.inf
        self._tools_relisting = Relisting(f"upstream {name!r}: its changed tools", deps.timings)
        self._offers_relisting = Relisting(f"upstream {name!r}: its resources and prompts", deps.timings)
        self.features_changed = ChangeSignal()
        """Notified when the hosts have more features than before."""
        self._is_renewed = False
        """True if the connection was ended only to reconnect with more features."""
        self._connected_at = math.inf
        self._listing = self._build_listing()
        self.block_lists: set[tuple[str, str]] = set() if listed_by is None else listed_by.block_lists
        """Raw names and digests of the tools that have given a list as a block for each item."""
        self.requests = Requests(self)
        self.writing = anyio.Semaphore(1, fast_acquire=True)
        """Held by the one call on its way that may write."""

    @property
    def listing(self) -> UpstreamListing:
        """The upstream's current state, with its current tools or those of the last run."""
        return self._listing

    @property
    def is_settled(self) -> bool:
        """True if the upstream is connected, or known to be unreachable or disabled."""
        return self._state not in (UpstreamState.WAITING, UpstreamState.CONNECTING)

    def explain_delay(self) -> None:
        """Say in the listing what is known of a first connection that takes long."""
        if self._state is UpstreamState.CONNECTING and self._error is None and self._starting is not None:
            transport, started = self._starting
            self._error = why_not_ready(transport, anyio.current_time() - started, self.deps.redactor())
            self._publish()

    def adjust(self, settings: ServerSettings) -> bool:
        """Take settings that need no new connection; False if there are others."""
        taken = {name: getattr(settings, name) for name in _ADJUSTABLE}
        if self.settings.model_copy(update=taken) != settings:
            return False
        if self.settings != settings:
            self.settings = settings
            self._publish()
        return True

    def _logged(self, text: str) -> str:
        return self.deps.config.logged(self.name, text)

    async def run(self) -> None:
        """Connect, serve and reconnect until cancelled. No failure of this upstream reaches the others."""
        if not self.settings.enabled:
            return
        pause_s = self._timings.backoff_first_s
        try:
            while True:
                self._connected_at = math.inf
                try:
                    await self._connect_and_serve()
                except Exception as error:  # a failing upstream must not affect the others
                    cause = first_cause(error)
                    said = str(self._error or cause)
                    shown = self._logged(said)
                    logger.info("upstream %r: %s", self.name, shown)
                    logger.debug("upstream %r", self.name, exc_info=error if shown == said else None)
                leave_trace()
                self._session = None
                if self._needs_sign_in and self._connected_at == math.inf:
                    await self._wait_for_sign_in()
                    pause_s = self._timings.backoff_first_s
                    continue
                if self._is_renewed:
                    self._is_renewed = False
                    continue
                self._set_state(UpstreamState.FAILED)
                if anyio.current_time() - self._connected_at >= self._timings.healthy_s:
                    pause_s = self._timings.backoff_first_s
                with anyio.move_on_after(pause_s * random.uniform(0.7, 1.3)):  # noqa: S311 - spreads restarts
                    await self._nudge.wait()
                self._nudge = anyio.Event()
                pause_s = min(pause_s * 2, self._timings.backoff_most_s)
        finally:
            self._session = None
            self._set_state(UpstreamState.WAITING)

    @property
    def _needs_sign_in(self) -> bool:
        return self.deps.tokens is not None and self.deps.tokens.needs_person

    async def sign_in(self, show: Show) -> None:
        """Let the person sign in, unless that is done by now; then wait a bounded time for the connection. Raises
        `CodemodeError`, `OSError`: as `SignIns.sign_in` says."""
        tokens, sign_ins = self.deps.tokens, self.deps.sign_ins
        if tokens is not None and sign_ins is not None and tokens.needs_person:
            await sign_ins.sign_in(self.name, self.settings, show)
            await tokens.read_again()
        self._nudged_at = -math.inf
        with suppress(UpstreamUnavailable):
            await self.ready_session(None)

    async def _wait_for_sign_in(self) -> None:
        tokens = self.deps.tokens
        if tokens is None:
            return
        self._error = tokens.problem
        self._set_state(UpstreamState.SIGNED_OUT)
        async with anyio.create_task_group() as tasks:

            async def wait_signed_in() -> None:
                await tokens.wait_signed_in()
                tasks.cancel_scope.cancel()

            tasks.start_soon(wait_signed_in)
            await self._nudge.wait()
            tasks.cancel_scope.cancel()
        self._nudge = anyio.Event()

    async def ready_session(self, revision: int | None) -> Session:
        """The open session. Waits for one that is being opened, and makes a failed upstream reconnect. Raises
        `DecisionOutdated`: the configuration is not that of `revision` any more; `UpstreamUnavailable`."""
        has_nudged = False
        with anyio.move_on_after(self._timings.call_wait_s):
            while True:
                if revision not in (None, self.deps.config.revision):
                    raise DecisionOutdated(f"upstream.yaml was edited while a call waited for server {self.name!r}")
                if self._session is not None and not self._session.lost.is_set():
                    return self._session
                if self._state is UpstreamState.DISABLED:
                    raise UpstreamUnavailable(f"server {self.name!r} is disabled in upstream.yaml")
                if self._state in (UpstreamState.FAILED, UpstreamState.SIGNED_OUT):
                    if has_nudged or anyio.current_time() - self._nudged_at < self._timings.nudge_every_s:
                        kind = SignInRequired if self._state is UpstreamState.SIGNED_OUT else UpstreamUnavailable
                        raise kind(f"server {self.name!r} is not connected: {self._error}")
                    self._nudged_at = anyio.current_time()
                    self._nudge.set()
                    has_nudged = True
                await self._changed.wait()
        raise UpstreamUnavailable(
            f"server {self.name!r} is still starting after {self._timings.call_wait_s:g} s; try again later"
        )

    async def why_lost(self, session: Session) -> str:
        """Why a session was lost, once it is closed; empty if that is not known."""
        with anyio.move_on_after(_CLOSING_S):
            while self._session is session:
                await self._changed.wait()
        return self._error if self._error is not None and self._error != _JUST_ENDED else ""

    async def _connect_and_serve(self) -> None:
        """One connection, or two when the newer protocol's probe ended the first. Returns when it is lost."""
        # A server of the product speaks the newer protocol, and its tools need that.
        is_legacy = not self._spec.is_own and "legacy" in (self.settings.protocol, self.offers.protocol_mode)
        try:
            await self._serve_once(legacy=is_legacy)
        except Exception as error:
            if isinstance(first_cause(error), ProbeEndedConnection):
                await self._serve_once(legacy=True)
                return
            if self._connected_at is math.inf:
                # What was remembered, or assumed, did not work: the other way the next time.
                is_unanswered = isinstance(first_cause(error), TimeoutError) and self.starts_process
                self.offers.protocol_mode = "legacy" if is_unanswered and not is_legacy else "auto"
            raise

    async def _serve_once(self, *, legacy: bool) -> None:
        from codemode_server.upstreams.session import Session

        settings = self.settings
        if settings.follows_folder and self.folder:
            settings = settings.model_copy(update={"cwd": self.folder})
        transport = self._spec.connect(settings, self.deps)
        self._starting = transport, anyio.current_time()
        is_started = anyio.Event()
        refused: list[str] = []
        refusals.set(refused)  # in the owner task's own context
        try:
            async with anyio.create_task_group() as slot:
                if self.starts_process:
                    await slot.start(self._hold_slot, is_started)
                self._set_state(UpstreamState.CONNECTING)
                try:
                    async with transport.open() as channel:
                        session = Session(channel, self, self._declared_features)
                        async with session.open():
                            await self._serve(session, is_started, legacy=legacy)
                finally:
                    is_started.set()
            self._error = transport.why_ended() or _JUST_ENDED
        except Exception as error:
            self._error = why_not_connected(error, transport, refused, self.deps.redactor())
            raise

    async def _serve(self, session: Session, is_started: anyio.Event, *, legacy: bool) -> None:
        async with anyio.create_task_group() as tasks:
            is_traced = self.deps.config.sends_trace_context
            start = span_around(f"connect {self.name}", is_wanted=is_traced, codemode__server=self.name)
            with start, anyio.fail_after(self._timings.connect_s):
                handshake_at_once = await negotiate(session, legacy=legacy, probe_s=self._timings.probe_s)
                self._tools_relisting.reset()
                self._offers_relisting.reset()
                update = partial(self._offers_relisting.run, at_once=True)
                tasks.start_soon(update, partial(self._update_offers, session), self._logged)
                if session.is_modern:
                    subscribed = anyio.Event()
                    tasks.start_soon(listen_for_changes, session, self, subscribed)
                    with anyio.move_on_after(self._timings.subscribe_s):
                        await subscribed.wait()
                    subscribed.set()
                if self.session_id and self.listed_by.offers.asks_for_roots and not session.is_modern:
                    from codemode_server.upstreams.server_requests import wait_answered

                    with anyio.move_on_after(self._timings.roots_s):
                        await wait_answered(session)
                found = await self.offers.list_tools(session)
                with anyio.move_on_after(self._timings.offers_s):  # tools need not wait for resources
                    await self._offers_relisting.listed.wait()
            leave_trace()
            is_started.set()
            await self.offers.take_tools(found, session, self.settings, "legacy" if handshake_at_once else "auto")
            self._session = session
            self._error = None
            self._connected_at = anyio.current_time()
            self._set_state(UpstreamState.READY)
            tasks.start_soon(self._tools_relisting.run, partial(self._update_tools, session), self._logged)
            tasks.start_soon(self._follow_features, session)
            await session.lost.wait()
            tasks.cancel_scope.cancel()

    async def _hold_slot(
        self, is_started: anyio.Event, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with self.deps.slots:
            task_status.started()
            with anyio.move_on_after(self._timings.slot_s):
                await is_started.wait()

    async def _update_tools(self, session: Session) -> None:
        await self.offers.update_tools(session, self.settings)
        self._publish()

    async def _update_offers(self, session: Session) -> None:
        await self.offers.update_offers(session)
        self._publish()

    @property
    def _declared_features(self) -> frozenset[Feature]:
        return self.settings.answered_features(frozenset(self.deps.host_features))

    async def _follow_features(self, session: Session) -> None:
        """Declare features that hosts have brought since the session was opened. In protocol 2026-07-28 each request
        declares them, so the tools are listed again. Older servers hear of them in the handshake only, so the
        connection is made again; but not if the server was called, since it may hold state."""
        while True:
            if not self._declared_features <= session.features:
                if session.is_modern:
                    session.features = self._declared_features
                    self.note_change(True)
                elif self.requests.last_session is not session:
                    self._is_renewed = True
                    session.lost.set()
            await self.features_changed.wait()

    def note_change(self, is_of_tools: bool) -> None:
        """The server has changed its tools, or else its resources or prompts."""
        (self._tools_relisting if is_of_tools else self._offers_relisting).changed.set()

    def _set_state(self, state: UpstreamState) -> None:
        self._state = state
        self._publish()

    def _publish(self) -> None:
        listing = self._build_listing()
        self._changed.notify()
        if listing != self._listing:
            self._listing = listing
            self.deps.on_change()

    def _build_listing(self) -> UpstreamListing:
        protocol = self._session.protocol if self._session is not None else None
        return self.offers.published(self.settings, self._state, protocol, self._error)
