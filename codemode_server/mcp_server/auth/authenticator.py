"""Finds out who sent a request over HTTP, by the token in its header: the one place that does."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from codemode_server.domain.errors import SettingsError
from codemode_server.domain.principals import Identity
from codemode_server.mcp_server import http_token
from codemode_server.mcp_server.auth.access_tokens import AccessTokens
from codemode_server.mcp_server.http_settings import HttpSettings
from codemode_server.support.text import escaped

if TYPE_CHECKING:
    from starlette.types import Scope

    from codemode_server.mcp_server.auth.oidc import OidcVerifier

_CREATE = "codemode-server tokens create PRINCIPAL"
_METADATA = "/.well-known/oauth-protected-resource"


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
    """Says who may be served on one port, by the tokens that are accepted. On loopback, the person who runs the product
    is served with the token in a file of theirs. Others need a token of `codemode-server tokens` or of the issuer, and
    so does everybody on other addresses."""

    own: str | None = field(default=None, repr=False)
    """The token of the person who runs the product; None where it is not accepted."""
    tokens: AccessTokens | None = None
    """None if the configuration can't be used: then only the person who runs the product is told why."""
    oidc: OidcVerifier | None = None
    settings: HttpSettings = field(default_factory=HttpSettings)

    @classmethod
    def of(
        cls, settings: HttpSettings, tokens: AccessTokens | None, *, is_loopback: bool, new_token: bool
    ) -> Authenticator:
        """Who is served on a port. Raises `SettingsError`: nobody could be; or the token can't be read or written."""
        if new_token and not is_loopback:
            raise SettingsError(f"--new-token is for loopback; on other addresses, tokens are made with: {_CREATE}")
        if not is_loopback and settings.oidc is None and (tokens is None or not tokens.has_valid()):
            raise SettingsError(
                f"--http: on an address that others reach, everybody needs a token. Make one with: {_CREATE}; or set "
                "http.oidc in upstream.yaml"
            )
        own = http_token.token(is_new=new_token) if is_loopback else None
        if settings.oidc is None:
            return cls(own, tokens, None, settings)
        from codemode_server.mcp_server.auth.oidc import OidcVerifier

        return cls(own, tokens, OidcVerifier(settings.oidc), settings)

    @property
    def hint(self) -> str:
        """Where the person finds a token."""
        if self.own is not None:
            return f"the token is in {escaped(str(http_token.token_file()))}"
        return f"tokens are made with: {_CREATE}. There is no encryption: put a proxy with TLS in front"

    @property
    def refusal(self) -> str:
        """The answer to a client without a valid token: how to get one."""
        finds = (
            f"The user who runs it finds the token in {escaped(str(http_token.token_file()))}"
            if self.own is not None
            else "Ask the user who runs it for one"
        )
        return f"This server needs its token, in the header `Authorization: Bearer TOKEN`. {finds}\n"

    @property
    def challenge(self) -> str:
        """The header with that answer; it says where a host finds out where to sign in (RFC 9728)."""
        metadata = ""
        if self.settings.oidc is not None and self.settings.url:
            parts = urlsplit(self.settings.url)
            metadata = f', resource_metadata="{parts.scheme}://{parts.netloc}{_METADATA}{parts.path}"'
        return f'Bearer realm="codemode-server"{metadata}'

    def metadata(self, scope: Scope) -> dict[str, Any] | None:
        """The answer to a host that asks where to sign in; None to all other requests."""
        oidc, url = self.settings.oidc, self.settings.url
        if oidc is None or url is None or scope["method"] != "GET" or not scope["path"].startswith(_METADATA):
            return None
        return {"resource": url, "authorization_servers": [oidc.issuer], "bearer_methods_supported": ["header"]}

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
