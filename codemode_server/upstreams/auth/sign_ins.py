"""The sign-ins of one principal: gives each server its tokens, and the redactor what must not be shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from codemode_server.config.settings import ServerSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.principals import PRINCIPAL_VARIABLE, Principal
from codemode_server.secrets.encrypted_files import EncryptedFileStore
from codemode_server.support.setting_types import is_safe_scheme
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings
from codemode_server.upstreams.auth.tokens import Renew, ServerTokens, SignIn, StoredSignIn

if TYPE_CHECKING:
    from codemode_server.upstreams.auth.redirect_listener import RedirectListener

Show = Callable[[str, "RedirectListener"], Awaitable[None]]
"""Shows the person an address to open; the listener takes the redirect."""
_MASKED = 3
"""Tokens that were replaced stay masked for so many renewals: a server may still answer with them."""


class SignIns:
    """Made once for a product."""

    def __init__(
        self,
        store: EncryptedFileStore,
        principal: str,
        *,
        mask: Callable[[frozenset[str]], None] = lambda _: None,
        login_options: str = "",
        environment: str = "",
    ) -> None:
        """`mask` is called with all tokens that must not be shown; `environment` and `login_options` begin and end the
        command that signs in."""
        self._store = store
        self.principal = principal
        self._mask = mask
        self._login_options = login_options
        self._environment = environment
        self._masked: dict[tuple[str, str], deque[frozenset[str]]] = {}
        """By principal and server."""

    def of(self, principal: Principal) -> SignIns:
        """The sign-ins of another principal, from the same store and with the same masking."""
        name = principal.principal_id
        environment = f"{PRINCIPAL_VARIABLE}={name} "
        other = SignIns(self._store, name, mask=self._mask, login_options=self._login_options, environment=environment)
        other._masked = self._masked
        return other

    def stored(self, server: str) -> StoredSignIn:
        """Where the sign-in to this server is stored."""
        return StoredSignIn(self._store, self.principal, server)

    def tokens(self, server: str, settings: ServerSettings) -> ServerTokens | None:
        """The tokens for requests to this server; None if they carry none, or another `Authorization`."""
        if settings.url is None or not signs_in(settings):
            return None
        oauth = settings.oauth or OAuthSettings()
        return ServerTokens(
            settings.url,
            oauth,
            self.stored(server),
            renew=_renewal(settings.url, settings.transport, oauth),
            mask=partial(self.mask_also, server),
            login=f"{self._environment}codemode-server login {server}{self._login_options}",
        )

    async def sign_in(self, server: str, settings: ServerSettings, show: Show, *, scopes: Sequence[str] = ()) -> SignIn:
        """Let the person sign in to a server with a `url`, and store that; `scopes` are asked for too. Raises as
        `flow.sign_in`, and `CodemodeError`: the address is not https, or the sign-in can't be stored."""
        from codemode_server.upstreams.auth.flow import sign_in

        oauth, url, stored = settings.oauth or OAuthSettings(), settings.url or "", self.stored(server)
        if not is_safe_scheme(url):
            raise CodemodeError(f"the url of server {server!r} is not https, so others could read the token on its way")
        before = await stored.read()
        granted = (before.scope or "").split() if before is not None and before.is_for(url, oauth) else []
        asked = list(dict.fromkeys([*oauth.scopes, *(granted if scopes else ()), *scopes]))
        found = await sign_in(url, settings.transport, oauth, asked, show)
        self.mask_also(server, found.secrets)
        async with stored.locked():
            await stored.write(found)
        return found

    def mask_also(self, server: str, secrets: frozenset[str]) -> None:
        """Mask these secrets of a server, beside the last few that it had before."""
        known = self._masked.setdefault((self.principal, server), deque(maxlen=_MASKED))
        if secrets not in known:
            known.append(secrets)
            self._mask(frozenset().union(*(one for of_server in self._masked.values() for one in of_server)))


def signs_in(settings: ServerSettings) -> bool:
    """True if requests to this server carry the tokens of a sign-in."""
    return settings.headers_command is None and not any(name.lower() == "authorization" for name in settings.headers)


def has_sign_in(settings: ServerSettings) -> bool:
    """True if a person can sign in to this server, as far as its settings say."""
    grant = (settings.oauth or OAuthSettings()).grant
    return settings.url is not None and signs_in(settings) and grant != "client_credentials"


def _renewal(url: str, transport: str, oauth: OAuthSettings) -> Renew:
    """Imports mcp's client only when there is something to renew."""

    async def renew(sign_in: SignIn | None) -> SignIn:
        if oauth.grant == "client_credentials":
            from codemode_server.upstreams.auth.flow import get_token

            return await get_token(url, transport, oauth)
        from codemode_server.upstreams.auth import token_requests

        return await token_requests.renew(oauth, sign_in)

    return renew
