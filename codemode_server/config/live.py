"""The configuration in force, which an edited file replaces while the product runs, and who asks under it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from codemode_server.calls.policy.settings import GROUP
from codemode_server.config.settings import LimitSettings, Settings
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Identity, Owner, Principal, Session
from codemode_server.support.change_signal import ChangeSignal
from codemode_server.support.known_values import KnownValues
from codemode_server.support.redaction import NO_SECRETS, Payloads, Redactor
from codemode_server.support.setting_types import Section

DEFAULT_PRINCIPAL = "default"


class LiveConfig:
    """Current settings and redactor. Long-lived objects hold it and read it when they need a setting, so that they
    follow an edit at once. Changed on the event loop only; may be read in any thread."""

    def __init__(
        self, settings: Settings | None = None, redactor: Redactor = NO_SECRETS, notices: tuple[str, ...] = ()
    ) -> None:
        self._take(settings or Settings())
        self.redactor = redactor
        """Masks every secret of the configuration in force, and the tokens of sign-ins."""
        self._without_tokens = redactor
        self._tokens: frozenset[str] = frozenset()
        self.notices = notices
        """Lines for the model about what is wrong with the configuration."""
        self.values_of: Callable[[Principal | None], KnownValues | None] = lambda _: None
        """The personal data of a principal that the model gets tokens for; of None, that of all principals."""
        self.logged: Callable[[str, str], str] = lambda _, text: text
        """A text of a server (raw name) as the log may have it: of a protected one without personal data."""
        self.revision = 0
        self._changed = ChangeSignal()

    def _take(self, settings: Settings) -> None:
        self.settings = settings
        self.payloads: Payloads = settings.state.payloads
        self.sends_trace_context: bool = getattr(getattr(settings, "tracing", None), "mcp", False)
        """True if servers learn which trace a call belongs to, that is with `tracing.mcp`."""
        self.protects_data: bool = getattr(getattr(settings, "privacy", None), "is_on", False)
        """True if personal data in results of any server is protected, that is with `privacy.servers`."""

    def redactor_of(self, principal: Principal) -> Redactor:
        """Masks secrets, and replaces the personal data of a principal: for what the principal's models and records
        get."""
        values = self.values_of(principal) if self.protects_data else None
        return self.redactor if values is None else self.redactor.replacing(values)

    @property
    def redactor_of_all(self) -> Redactor:
        """Masks secrets, and replaces the personal data of all principals: for what belongs to none, as the log."""
        values = self.values_of(None) if self.protects_data else None
        return self.redactor if values is None else self.redactor.replacing(values)

    def put(self, settings: Settings, redactor: Redactor, notices: tuple[str, ...] = ()) -> None:
        """Put a configuration in force; for one that was edited there is `replace`."""
        self._take(settings)
        self._without_tokens, self.notices = redactor, notices
        self.mask_tokens(self._tokens)

    def replace(self, settings: Settings, redactor: Redactor, notices: tuple[str, ...] = ()) -> None:
        """Put an edited configuration in force and wake up everyone who waits for it."""
        self.put(settings, redactor, notices)
        self.revision += 1
        self._changed.notify()

    def mask_tokens(self, tokens: frozenset[str]) -> None:
        """Mask these tokens of sign-ins, in place of those before."""
        self._tokens = tokens
        self.redactor = self._without_tokens.also(tokens) if tokens else self._without_tokens

    async def wait_newer(self, revision: int) -> int:
        """Wait until the configuration is newer than `revision`; returns the present revision."""
        while self.revision <= revision:
            await self._changed.wait()
        return self.revision


def in_force(old: Settings, new: Settings) -> tuple[Settings, tuple[str, ...]]:
    """The new settings, but for what is read at the start only; and the names of what was edited there in vain."""
    principal = local_principal(old)
    fixed: dict[str, Any] = {"principal": principal.principal_id}
    kept: list[str] = []
    for name in Settings.model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if isinstance(before, Section):
            fields = type(before).model_fields if before.read_at_start is None else before.read_at_start
            changed = {it: getattr(before, it) for it in fields if getattr(before, it) != getattr(after, it)}
            fixed[name] = after.model_copy(update=changed)
            kept += [f"{name}.{field}" for field in changed]
        elif before != after and isinstance(before, tuple) and any(it.read_at_start is None for it in before + after):
            fixed[name] = before
            kept.append(name)
    if local_principal(new) != principal:
        kept.append("principal")
    return new.model_copy(update=fixed), tuple(kept)


def beyond_running_machines(old: LimitSettings, new: LimitSettings) -> tuple[str, ...]:
    """The limits that were raised and that a microVM which was started with the old ones can't give."""
    names = ("memory_mb", "wall_seconds", "upstream_seconds")
    return tuple(f"limits.{name}" for name in names if getattr(new, name) > getattr(old, name))


def local_principal(settings: Settings) -> Principal:
    """The principal of this machine's user, which only the configuration and the environment name."""
    return Principal(PrincipalId(settings.principal or DEFAULT_PRINCIPAL))


@dataclass(frozen=True)
class Caller:
    """Who asks, on which connection, under which configuration: made once for each request, and passed down."""

    principal: Principal
    session: Session
    config: LiveConfig
    token_groups: frozenset[str] = frozenset()
    """The groups that the authentication names; the configuration may add others."""

    @cached_property
    def owner(self) -> Owner:
        return Owner(self.principal, self.session)

    @property
    def redactor(self) -> Redactor:
        """Masks secrets, and replaces the personal data of the principal."""
        return self.config.redactor_of(self.principal)

    @property
    def groups(self) -> frozenset[str]:
        """The groups of the principal, by the configuration in force and by its authentication."""
        by_name = self.config.settings.groups
        if not by_name:
            return self.token_groups
        return self.token_groups.union(group for group, it in by_name.items() if self.principal.principal_id in it)

    @property
    def names(self) -> frozenset[str]:
        """Names by which permission rules refer to the principal: its name, and its groups as `group:<name>`."""
        return frozenset([self.principal.principal_id, *(f"{GROUP}{it}" for it in self.groups)])

    @property
    def is_local(self) -> bool:
        """True if this is the person who runs the product, not somebody who is served over HTTP."""
        return self.principal == local_principal(self.config.settings)

    @classmethod
    def of(cls, session: Session, config: LiveConfig, identity: Identity | None = None) -> Caller:
        """The caller in this session. Without an identity it is the principal of the configuration: over stdio, in
        memory, and over HTTP with the token of the person who runs the product."""
        if identity is None:
            return cls(local_principal(config.settings), session, config)
        return cls(identity.principal, session, config, identity.groups)
