"""One upstream: its owner task connects it, lists its tools, lists them again when they change, and reconnects.

The owner task enters and leaves all context managers, as anyio's scopes demand. `requests` come from other tasks and
share its `Link`; they influence the connection only by `_nudge` (reconnect now) and `Link.lost` (this link is dead).
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import anyio
from anyio.abc import TaskStatus

from codemode_server.config.settings import ServerSettings
from codemode_server.domain.errors import DecisionOutdated, SignInRequired, UpstreamUnavailable
from codemode_server.domain.input_requests import Feature
from codemode_server.domain.tools import EFFECTS_OF_SETTINGS, ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.support.change_signal import ChangeSignal
from codemode_server.support.redaction import Redactor
from codemode_server.upstreams._link import Link
from codemode_server.upstreams._subscription import listen_for_changes
from codemode_server.upstreams.auth.sign_ins import Show
from codemode_server.upstreams.cache import CachedListing, fingerprint
from codemode_server.upstreams.connection_deps import ConnectionDeps, Timings
from codemode_server.upstreams.failures import first_cause, why_not_connected, why_not_ready
from codemode_server.upstreams.listings import OffersFound, ToolsFound, describe_server, list_offers, list_tools
from codemode_server.upstreams.negotiation import ProbeEndedConnection, negotiate
from codemode_server.upstreams.requests import Requests
from codemode_server.upstreams.transports.registry import Transport, refusals, transport_of

if TYPE_CHECKING:
    from mcp.client.session import IncomingMessage

logger = logging.getLogger(__name__)

_PAUSE_PER_LISTING = 20
"""The pause between two listings of changed tools, as a multiple of the time that one took."""
_MAX_PAUSE_S = 10.0
_MAX_VERSION_CHARACTERS = 200
_JUST_ENDED = "the connection ended"
_CLOSING_S = 2.0
"""Longest wait of a lost call for the last words of a server that ends."""
_STATES_WITH_ERROR = (UpstreamState.FAILED, UpstreamState.SIGNED_OUT, UpstreamState.CONNECTING)


class Connection:
    """One upstream, from its cached listing on. `run` is its owner task."""

    def __init__(self, name: str, settings: ServerSettings, deps: ConnectionDeps) -> None:
        self.name = name
        self._settings = settings
        self._spec = transport_of(settings)
        self._deps = deps = deps.for_server(name, settings)
        self._timings = deps.timings
        self._fingerprint = fingerprint(settings)
        self._found = deps.cache.get(name, self._fingerprint) or CachedListing()
        self._protocol_mode: Literal["auto", "legacy"] = self._found.protocol_mode
        self._state = UpstreamState.WAITING if settings.enabled else UpstreamState.DISABLED
        self._error: str | None = None
        self._protocol: str | None = None
        self._link: Link | None = None
        self._starting: tuple[Transport, float] | None = None
        """The transport that is being opened, and since when."""
        self._changed = ChangeSignal()
        self._nudge = anyio.Event()
        self._nudged_at = -math.inf
        self._tools_upkeep = _Upkeep(f"upstream {name!r}: its changed tools", deps.timings, self._logged)
        self._offers_upkeep = _Upkeep(f"upstream {name!r}: its resources and prompts", deps.timings, self._logged)
        self._features_changed = ChangeSignal()
        self._is_renewed = False
        """True if the connection was ended only to reconnect with more features."""
        self._connected_at = math.inf
        self._listing = self._build_listing()
        self._digests: dict[str, str] = {}
        self.block_lists: set[tuple[str, str]] = set()
        """Raw names and digests of the tools that have given a list as a block for each item."""
        self.requests = Requests(
            name,
            deps,
            settings=lambda: self._settings,
            digest_of=lambda tool: self._digests.get(tool, ""),
            ready_link=self._ready_link,
            why_lost=self._why_lost,
        )

    @property
    def settings(self) -> ServerSettings:
        """Those in force."""
        return self._settings

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
            self._error = why_not_ready(transport, anyio.current_time() - started, self._redactor)
            self._publish()

    def adjust(self, settings: ServerSettings) -> bool:
        """Take settings that need no new connection; False if these do."""
        taken = {name: getattr(settings, name) for name in ("timeout", "tools", "effects", "labels", "description")}
        if self._settings.model_copy(update=taken) != settings:
            return False
        if self._settings != settings:
            self._settings = settings
            self._publish()
        return True

    @property
    def _redactor(self) -> Redactor:
        """The current one: a change of the configuration brings another."""
        return self._deps.redactor()

    def _logged(self, text: str) -> str:
        return self._deps.config.logged(self.name, text)

    async def run(self) -> None:
        """Connect, serve and reconnect until cancelled. No failure of this upstream reaches the others."""
        if not self._settings.enabled:
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
                self._link = self._protocol = None
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
            self._link = self._protocol = None
            self._set_state(UpstreamState.WAITING)

    @property
    def _needs_sign_in(self) -> bool:
        return self._deps.tokens is not None and self._deps.tokens.needs_person

    async def sign_in(self, show: Show) -> None:
        """Let the person sign in, unless that is done by now; then wait a bounded time for the connection. Raises
        `CodemodeError`, `OSError`: as `SignIns.sign_in` says."""
        tokens, sign_ins = self._deps.tokens, self._deps.sign_ins
        if tokens is not None and sign_ins is not None and tokens.needs_person:
            await sign_ins.sign_in(self.name, self._settings, show)
            await tokens.read_again()
        self._nudged_at = -math.inf
        with suppress(UpstreamUnavailable):
            await self._ready_link(None)

    async def _wait_for_sign_in(self) -> None:
        tokens = self._deps.tokens
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

    async def _ready_link(self, revision: int | None) -> Link:
        """The open link. Waits for one that is being opened, and makes a failed upstream reconnect."""
        has_nudged = False
        with anyio.move_on_after(self._timings.call_wait_s):
            while True:
                if revision not in (None, self._deps.config.revision):
                    raise DecisionOutdated(f"upstream.yaml was edited while a call waited for server {self.name!r}")
                if self._link is not None and not self._link.lost.is_set():
                    return self._link
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

    async def _why_lost(self, link: Link) -> str:
        with anyio.move_on_after(_CLOSING_S):
            while self._link is link:
                await self._changed.wait()
        return self._error if self._error is not None and self._error != _JUST_ENDED else ""

    async def _connect_and_serve(self) -> None:
        """One connection, or two when the newer protocol's probe ended the first. Returns when it is lost."""
        # A server of the product speaks the newer protocol, and its tools need that.
        is_legacy = not self._spec.is_own and "legacy" in (self._settings.protocol, self._protocol_mode)
        try:
            await self._serve_once(legacy=is_legacy)
        except Exception as error:
            if isinstance(first_cause(error), ProbeEndedConnection):
                await self._serve_once(legacy=True)
                return
            if self._connected_at is math.inf:
                # What was remembered, or assumed, did not work: the other way the next time.
                is_unanswered = isinstance(first_cause(error), TimeoutError) and self._spec.starts_process
                self._protocol_mode = "legacy" if is_unanswered and not is_legacy else "auto"
            raise

    async def _serve_once(self, *, legacy: bool) -> None:
        transport = self._spec.connect(self._settings, self._deps)
        self._starting = transport, anyio.current_time()
        is_started = anyio.Event()
        refused: list[str] = []
        refusals.set(refused)  # in the owner task's own context
        try:
            async with anyio.create_task_group() as slot:
                if self._spec.starts_process:
                    await slot.start(self._hold_slot, is_started)
                self._set_state(UpstreamState.CONNECTING)
                try:
                    async with transport.open() as streams:
                        link = Link(
                            streams,
                            self._on_message,
                            self.requests.answer,
                            self._declared_features,
                            lambda: self._deps.config.sends_trace_context,
                        )
                        async with link.session:
                            await self._serve(link, is_started, legacy=legacy)
                finally:
                    is_started.set()
            self._error = transport.why_ended() or _JUST_ENDED
        except Exception as error:
            self._error = why_not_connected(error, transport, refused, self._redactor)
            raise

    async def _serve(self, link: Link, is_started: anyio.Event, *, legacy: bool) -> None:
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(self._timings.connect_s):
                handshake_at_once = await negotiate(link, legacy=legacy, probe_s=self._timings.probe_s)
                self._tools_upkeep.reset()
                self._offers_upkeep.reset()
                tasks.start_soon(partial(self._offers_upkeep.run, partial(self._list_offers, link), at_once=True))
                if link.is_modern:
                    subscribed = anyio.Event()
                    tasks.start_soon(listen_for_changes, link, self.name, subscribed, self._on_change, self._timings)
                    with anyio.move_on_after(self._timings.subscribe_s):
                        await subscribed.wait()
                    subscribed.set()
                found = await self._list(link)
                with anyio.move_on_after(self._timings.offers_s):  # tools need not wait for resources
                    await self._offers_upkeep.listed.wait()
            is_started.set()
            await self._take(found, link, "legacy" if handshake_at_once else "auto")
            self._link = link
            self._protocol = link.session.protocol_version
            self._error = None
            self._connected_at = anyio.current_time()
            self._set_state(UpstreamState.READY)
            tasks.start_soon(self._tools_upkeep.run, partial(self._list_changed, link))
            tasks.start_soon(self._follow_features, link)
            await link.lost.wait()
            tasks.cancel_scope.cancel()

    async def _hold_slot(
        self, is_started: anyio.Event, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with self._deps.slots:
            task_status.started()
            with anyio.move_on_after(self._timings.slot_s):
                await is_started.wait()

    async def _list(self, link: Link) -> ToolsFound:
        found = await list_tools(link, refuse_schema=link.refuse_schema, redact=self._redactor.value)
        link.remember(found.tools)
        return found

    async def _take(self, found: ToolsFound, link: Link, protocol_mode: Literal["auto", "legacy"]) -> None:
        server = link.session.server_info
        redactor = self._redactor
        version = redactor.text(server.version)[:_MAX_VERSION_CHARACTERS] if server is not None else None
        if self._found.protocol_mode == "legacy" and self._found.server_version != version:
            protocol_mode = "auto"  # another version may support the newer protocol
        if self._settings.protocol == "legacy":
            protocol_mode = "auto"  # set in the configuration, not found by probing
        self._protocol_mode = protocol_mode
        self._found = replace(
            self._found,
            tools=found.tools,
            description=describe_server(getattr(server, "description", None), link.session.instructions, redactor),
            protocol=link.session.protocol_version,
            protocol_mode=protocol_mode,
            server_version=version,
            left_out=found.left_out,
            problems=found.problems,
            stored_at=time.time(),
        )
        await self._deps.cache.put(self.name, self._fingerprint, self._found)
        self._digests = {tool.name: tool.digest for tool in found.tools}

    async def _list_changed(self, link: Link) -> None:
        found, before = await self._list(link), self._found
        if found != ToolsFound(before.tools, before.left_out, before.problems):
            await self._take(found, link, self._protocol_mode)
            self._publish()

    async def _list_offers(self, link: Link) -> None:
        found, before = await list_offers(link, self._redactor.value), self._found
        if found == OffersFound(before.resources, before.prompts, before.offer_problems):
            return
        self._found = replace(before, resources=found.resources, prompts=found.prompts, offer_problems=found.problems)
        await self._deps.cache.put(self.name, self._fingerprint, self._found)
        self._publish()

    @property
    def _declared_features(self) -> frozenset[Feature]:
        return self._settings.answered_features(frozenset(self._deps.host_features))

    def take_host_features(self) -> None:
        """The hosts have more features than before."""
        self._features_changed.notify()

    async def _follow_features(self, link: Link) -> None:
        """Declare features that hosts have brought since the link was opened.

        In protocol 2026-07-28 each request declares them, so the tools are listed again. Older servers hear of them in
        the handshake only, so the connection is made again; but not if the server was called, since it may hold state.
        """
        while True:
            if not self._declared_features <= link.features:
                if link.is_modern:
                    link.features = self._declared_features
                    self._on_change(True)
                elif self.requests.last_link is not link:
                    self._is_renewed = True
                    link.lost.set()
            await self._features_changed.wait()

    async def _on_message(self, message: IncomingMessage) -> None:
        import mcp_types as types

        if isinstance(message, types.ToolListChangedNotification):
            self._on_change(True)
        elif isinstance(message, types.ResourceListChangedNotification | types.PromptListChangedNotification):
            self._on_change(False)

    def _on_change(self, is_of_tools: bool) -> None:
        (self._tools_upkeep if is_of_tools else self._offers_upkeep).changed.set()

    def _set_state(self, state: UpstreamState) -> None:
        self._state = state
        self._publish()

    def _publish(self) -> None:
        listing = self._build_listing()
        self._changed.notify()
        if listing != self._listing:
            self._listing = listing
            self._deps.on_change()

    def _selected_tools(self) -> tuple[ToolDefinition, ...]:
        """The tools that exist for programs and searches. The effects in the settings go before the annotations."""
        settings = self._settings
        selected = (tool for tool in self._found.tools if settings.tools.selects(tool.name))
        return tuple(
            tool
            if (stated := settings.effect_of(tool.name)) is None
            else replace(tool, effect=EFFECTS_OF_SETTINGS[stated])
            for tool in selected
        )

    def _build_listing(self) -> UpstreamListing:
        is_disabled = self._state is UpstreamState.DISABLED
        return UpstreamListing(
            name=self.name,
            state=self._state,
            tools=() if is_disabled else self._selected_tools(),
            description=self._settings.description or self._found.description,
            protocol=self._protocol,
            error=self._error if self._state in _STATES_WITH_ERROR else None,
            left_out={} if is_disabled else self._found.left_out,
            problems=() if is_disabled else (*self._found.problems, *self._found.offer_problems),
            last_tools=tuple(tool.name for tool in self._found.tools) if is_disabled else (),
            resources=() if is_disabled else self._found.resources,
            prompts=() if is_disabled else self._found.prompts,
        )


class _Upkeep:
    """Lists again after each change, at a pace: a server that notifies without end must not take all of our time."""

    def __init__(self, what: str, timings: Timings, logged: Callable[[str], str]) -> None:
        self._what = what
        self._logged = logged
        self._timings = timings
        self.reset()

    def reset(self) -> None:
        """Begin anew with another link."""
        self.changed = anyio.Event()
        """To be set when the server says that something has changed."""
        self.listed = anyio.Event()
        """Set after the first listing."""

    async def run(self, list_again: Callable[[], Awaitable[None]], *, at_once: bool = False) -> None:
        """Call `list_again` after each change, with `at_once` also now, until cancelled; its failure is logged."""
        from mcp.shared.exceptions import MCPError

        not_before = -math.inf
        while True:
            if not at_once:
                await self.changed.wait()
                await anyio.sleep(max(self._timings.debounce_s, not_before - anyio.current_time()))
            at_once, self.changed = False, anyio.Event()
            started = anyio.current_time()
            try:
                with anyio.fail_after(self._timings.list_s):
                    await list_again()
            except (MCPError, TimeoutError) as error:
                logger.info("%s can't be listed: %s", self._what, self._logged(str(error)))
            self.listed.set()
            ended = anyio.current_time()
            not_before = ended + min(_MAX_PAUSE_S, _PAUSE_PER_LISTING * (ended - started))
