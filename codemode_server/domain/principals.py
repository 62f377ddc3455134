"""Who is asking: the principal, and the session of one host connection."""

from __future__ import annotations

from dataclasses import dataclass

from codemode_server.domain.ids import PrincipalId


@dataclass(frozen=True, slots=True)
class Principal:
    """Owner of workspaces, permissions, artifacts, journal and audit rows. Chosen by the configuration or by
    authentication, never by the model or a program."""

    principal_id: PrincipalId


@dataclass(frozen=True, slots=True)
class Session:
    """One host connection of a principal."""

    session_id: str
    is_ephemeral: bool = False
    """Whether it ends with this one request, so that nothing need be kept for it."""
