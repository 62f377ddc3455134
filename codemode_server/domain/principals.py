"""Value types for principal, session and owner (of stored data)."""

from __future__ import annotations

from dataclasses import dataclass

from codemode_server.domain.ids import PrincipalId


@dataclass(frozen=True, slots=True)
class Principal:
    """Owner of workspaces, permissions, artifacts, journal and audit rows. Chosen by the configuration or by
    authentication, never by the model or a program."""

    principal_id: PrincipalId


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a request over HTTP proved to come from."""

    principal: Principal
    groups: frozenset[str] = frozenset()
    """The groups that the authentication names; the configuration may add others."""


@dataclass(frozen=True, slots=True)
class Session:
    """One host connection of a principal."""

    session_id: str
    is_ephemeral: bool = False
    """True if it ends with this one request, so that nothing is stored for later ones."""
    identity: Identity | None = None
    """None: the principal of the configuration. So it is over stdio, in memory, and over HTTP with the token of the
    person who runs the product."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of an artifact: a session of a principal."""

    principal: Principal
    session: Session

    def may_read(self, other: Owner) -> bool:
        """True if this owner may read artifacts of `other`. Ephemeral sessions can't be distinguished, so any of them
        may read an artifact by its exact name."""
        is_same_session = self.session.session_id == other.session.session_id
        are_ephemeral = self.session.is_ephemeral and other.session.is_ephemeral
        return self.principal == other.principal and (is_same_session or are_ephemeral)
