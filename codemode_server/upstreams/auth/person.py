"""A sign-in by a person: the authorization code flow with PKCE, in a browser (RFC 8252)."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata
from pydantic import AnyUrl

from codemode_server.setting_types import is_safe_scheme
from codemode_server.text import one_line
from codemode_server.upstreams.auth.flow import ChoosesIssuer, ChosenScopes, MemoryStorage, run
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings
from codemode_server.upstreams.auth.redirect_listener import RedirectListener, listening
from codemode_server.upstreams.auth.sign_in import SignIn
from codemode_server.upstreams.auth.sign_ins import Show
from codemode_server.upstreams.auth.tokens import SignInRefused


async def sign_in(url: str, transport: str, settings: OAuthSettings, scopes: Sequence[str], show: Show) -> SignIn:
    """Let a person sign in; `scopes` are asked for in place of those that the server names.

    Raises:
        SignInRefused, AuthorizationUnavailable: as `flow.run` does.
        OSError: the port of the redirect is in use.
    """
    async with listening(_redirect_address(settings)) as listener:
        provider = _PersonProvider(url, settings, scopes, listener, show)
        found = await run(provider, url, transport)
    if settings.client_secret is not None:  # it stays where the settings have it
        found = found.model_copy(update={"client": {k: v for k, v in found.client.items() if k != "client_secret"}})
    return found


def _redirect_address(settings: OAuthSettings) -> str | None:
    """What is registered; for a client that was registered elsewhere, a server takes any port (RFC 8252)."""
    is_registered = settings.client_id is not None or settings.client_metadata_url is not None
    return settings.redirect_uri or ("http://127.0.0.1:0/callback" if is_registered else None)


class _PersonProvider(ChoosesIssuer):
    """mcp's provider with our settings, our listener, and a check for PKCE."""

    def __init__(
        self, url: str, settings: OAuthSettings, scopes: Sequence[str], listener: RedirectListener, show: Show
    ) -> None:
        redirects = [AnyUrl(listener.address)]
        kind = ChosenScopes if scopes else OAuthClientMetadata
        metadata = kind(
            client_name="codemode-server",
            redirect_uris=redirects,
            token_endpoint_auth_method="none",  # noqa: S106
            scope=" ".join(scopes) or None,
        )
        storage = MemoryStorage(_registered(settings, redirects))
        super().__init__(url, metadata, storage, self._open, self._wait, settings.client_metadata_url)
        self.chosen_issuer = settings.issuer
        self._listener = listener
        self._show = show
        self.context.auth_server_url = settings.issuer

    async def _open(self, address: str) -> None:
        metadata = self.context.oauth_metadata
        if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise SignInRefused(f"the authorization server {metadata.issuer} does not support PKCE with S256")
        if not is_safe_scheme(address):
            raise SignInRefused("the page to sign in is not https")
        self._listener.expect(parse_qs(urlsplit(address).query)["state"][-1])
        await self._show(address, self._listener)

    async def _wait(self) -> AuthorizationCodeResult:
        redirect = await self._listener.wait()
        if redirect.error:
            raise SignInRefused(f"the authorization server answered {one_line(redirect.error, 100)!r}")
        return AuthorizationCodeResult(code=redirect.code, state=redirect.state, iss=redirect.iss)


def _registered(settings: OAuthSettings, redirects: list[AnyUrl]) -> OAuthClientInformationFull | None:
    if settings.client_id is None:
        return None
    return OAuthClientInformationFull(
        client_id=settings.client_id,
        client_secret=settings.client_secret,
        redirect_uris=redirects,
        token_endpoint_auth_method=settings.token_endpoint_auth_method if settings.client_secret else "none",
    )
