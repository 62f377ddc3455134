"""Finds out who sent a request over HTTP, by the token in its header: the one place that does."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from codemode_server.domain.principals import Identity
from codemode_server.front.auth.access_tokens import AccessTokens
from codemode_server.front.auth.oidc import OidcVerifier

if TYPE_CHECKING:
    from starlette.types import Scope


class HostUser(AuthenticatedUser):
    """Who sent a request. mcp serves a session only to requests of the user that began it, so `access_token` has the
    principal and no token."""

    def __init__(self, identity: Identity | None, issuer: str) -> None:
        """Without an identity it is the person who runs the product."""
        name = "" if identity is None else identity.principal.principal_id
        super().__init__(AccessToken(token="", client_id=issuer, scopes=[], subject=name))
        self.proved = identity
        """Not `identity`, which Starlette's users have for something else."""


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Says who may be served, by the tokens that are accepted."""

    own: str | None = field(default=None, repr=False)
    """The token of the person who runs the product; None where it is not accepted."""
    tokens: AccessTokens | None = None
    oidc: OidcVerifier | None = None

    async def user_of(self, scope: Scope) -> HostUser | None:
        """Who sent the request of this scope; None if it proves nobody."""
        if (token := _bearer(scope)) is None:
            return None
        if self.own is not None and hmac.compare_digest(token.encode(), self.own.encode()):
            return HostUser(None, "own")
        if self.tokens is not None and (identity := self.tokens.identity_of(token)) is not None:
            return HostUser(identity, "tokens")
        if self.oidc is not None and token.count(".") == 2:
            identity = await self.oidc.identity_of(token)
            return None if identity is None else HostUser(identity, "oidc")
        return None


def identity_of(scope: Any) -> Identity | None:
    """Who sent a request that was let in; None: the person who runs the product. Raises `PermissionError`: nobody
    checked the request."""
    user = scope.get("user")
    if not isinstance(user, HostUser):
        raise PermissionError("a request over HTTP reached the server without authentication")
    return user.proved


def _bearer(scope: Scope) -> str | None:
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(given) != 1:
        return None
    scheme, _, token = given[0].partition(b" ")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" else None
