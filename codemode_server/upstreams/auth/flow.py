"""Gets a token with mcp's own client: metadata, client, authorization and token in one run.

mcp's provider works on the answers to a request. The request here is a `ping`, which does nothing at the server. mcp
checks that the metadata is of this server and of the issuer that it names, the `iss` of the redirect, and its `state`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import issuers_match, union_scopes
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import AnyUrl, ValidationError

from codemode_server.support.setting_types import is_safe_scheme
from codemode_server.support.text import one_line
from codemode_server.upstreams.auth.guarded_http import guarded_client
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings
from codemode_server.upstreams.auth.redirect_listener import RedirectListener, listening
from codemode_server.upstreams.auth.sign_ins import Show
from codemode_server.upstreams.auth.tokens import (
    AuthorizationUnavailable,
    SignIn,
    SignInRefused,
    is_sendable,
    renewal_time,
)

logging.getLogger("mcp.client.auth.oauth2").disabled = True  # it logs states and the bodies of token answers

_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": LATEST_HANDSHAKE_VERSION,
}
_CHALLENGED = 401
_MAX_REASON_CHARACTERS = 300


@dataclass(slots=True)
class MemoryStorage:
    """mcp's storage for the time of one run."""

    client: OAuthClientInformationFull | None = None
    tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class ChosenScopes(OAuthClientMetadata):
    """Client metadata whose scopes were chosen: mcp replaces them by those that the server names."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "scope":
            offline = "offline_access" if "offline_access" in (value or "").split() else None
            value = union_scopes(self.scope, offline)
        super().__setattr__(name, value)


class ChoosesIssuer(OAuthClientProvider):
    """A provider that prefers the issuer that the settings name, and takes either spelling of one without a path. mcp
    compares issuers as strings. Many servers name theirs with a slash at the end, and the issuer itself does not."""

    chosen_issuer: str | None = None
    is_other_spelling = False

    def _select_authorization_server(self, advertised: list[str]) -> str:
        chosen = self.chosen_issuer
        if chosen is None:
            found = advertised[0]
        else:
            found = next((server for server in advertised if issuers_match(server, chosen)), chosen)
        if not self.is_other_spelling or urlsplit(found).path not in ("", "/"):
            return found
        return found.removesuffix("/") if found.endswith("/") else f"{found}/"


async def run(provider: ChoosesIssuer, url: str, transport: str) -> SignIn:
    """Run the provider until it has a token that the server takes. Raises `SignInRefused`: the server asks for no
    sign-in, or somebody refuses; `AuthorizationUnavailable`: one of them can't be reached or read."""
    try:
        try:
            status = await _challenge(provider, url, transport, is_forced=False)
        except OAuthFlowError as error:
            if "metadata issuer mismatch" not in str(error):
                raise
            provider.is_other_spelling = True
            status = await _challenge(provider, url, transport, is_forced=False)
        if provider.context.current_tokens is None and status != _CHALLENGED:
            try:
                status = await _challenge(provider, url, transport, is_forced=True)
            except (OAuthFlowError, OAuthRegistrationError):
                raise SignInRefused(f"the server asks for no sign-in: it answered with HTTP {status}") from None
    except (OAuthFlowError, ValidationError) as error:
        raise _refusal(error) from None
    except httpx2.HTTPError as error:
        raise AuthorizationUnavailable(f"{_host(error)}: {error or type(error).__name__}") from None
    token, client = provider.context.current_tokens, provider.context.client_info
    if token is not None and not is_sendable(token.access_token):
        raise SignInRefused("the token of the authorization server can't be sent in an HTTP header")
    if token is None or client is None or status in (401, 403):
        raise SignInRefused(f"the server refuses the new token with HTTP {status}; it may be for another audience")
    return _sign_in(provider.context, token, client)


async def _challenge(provider: OAuthClientProvider, url: str, transport: str, *, is_forced: bool) -> int:
    """Send the request; with `is_forced`, take its first answer for a demand to sign in."""
    method, body = ("GET", None) if transport == "sse" else ("POST", _PING)

    async def demand_sign_in(response: httpx2.Response) -> None:
        nonlocal is_forced
        if is_forced:
            is_forced, response.status_code = False, _CHALLENGED

    async with guarded_client(url, provider) as client:
        client.event_hooks["response"].append(demand_sign_in)
        async with client.stream(method, url, json=body, headers=_HEADERS) as response:
            return response.status_code


def _sign_in(context: OAuthContext, token: OAuthToken, client: OAuthClientInformationFull) -> SignIn:
    metadata = context.oauth_metadata
    base = context.get_authorization_base_url(context.server_url)
    revocation = metadata.revocation_endpoint if metadata else None
    return SignIn(
        url=context.server_url,
        resource=context.get_resource_url(),
        issuer=str(metadata.issuer) if metadata else base,
        token_endpoint=str(metadata.token_endpoint) if metadata else urljoin(base, "/token"),
        revocation_endpoint=str(revocation) if revocation else None,
        client=client.model_dump(mode="json", exclude_none=True),
        access_token=token.access_token,
        refresh_token=token.refresh_token,
        renew_at=renewal_time(token.expires_in),
        scope=token.scope,
    )


def _refusal(error: Exception) -> SignInRefused | AuthorizationUnavailable:
    """The error without what mcp quotes: states, and bodies of answers about tokens."""
    if isinstance(error, OAuthTokenError):
        found = re.search(r'"error"\s*:\s*"([a-z_]{1,60})"', str(error))
        status = re.search(r"\((\d{3})\)", str(error))
        said = f"{found[1]!r}" if found else f"HTTP {status[1]}" if status else "what is no token"
        return SignInRefused(f"the authorization server answered the request for a token with {said}")
    if isinstance(error, OAuthRegistrationError):
        status = re.search(r"Registration failed: (\d{3})", str(error))
        said = f"HTTP {status[1]}" if status else "what can't be used"
        return SignInRefused(
            f"the authorization server answered the registration of a client with {said}; register one by hand, and "
            "set `oauth.client_id` for the server"
        )
    if isinstance(error, ValidationError):
        return AuthorizationUnavailable("the metadata of the server or its authorization server can't be read")
    if str(error).startswith("State parameter mismatch"):
        return SignInRefused("the redirect does not belong to this sign-in")
    return SignInRefused(one_line(str(error), _MAX_REASON_CHARACTERS))


def _host(error: httpx2.HTTPError) -> str:
    try:
        return f"{error.request.url.host} can't be reached"
    except RuntimeError:
        return "the authorization server can't be reached"


class _SecretProvider(ChoosesIssuer, ClientCredentialsOAuthProvider):
    """mcp's provider, with our choice of the issuer."""


async def get_token(url: str, transport: str, settings: OAuthSettings) -> SignIn:
    """A new token; without scopes in the settings, for those that the server names. Raises `SignInRefused`,
    `AuthorizationUnavailable`: as `flow.run` does."""
    provider = _provider(url, settings)
    provider.chosen_issuer = settings.issuer
    if settings.scopes:
        provider.context.client_metadata = ChosenScopes(**dict(provider.context.client_metadata))
    found = await run(provider, url, transport)
    return found.model_copy(update={"client": {"client_id": settings.client_id}})


def _provider(url: str, settings: OAuthSettings) -> ChoosesIssuer:
    secret, method = settings.client_secret or "", settings.token_endpoint_auth_method
    scope = " ".join(settings.scopes) or None
    return _SecretProvider(url, MemoryStorage(), settings.client_id or "", secret, method, scope, settings.issuer)


async def sign_in(url: str, transport: str, settings: OAuthSettings, scopes: Sequence[str], show: Show) -> SignIn:
    """Let a person sign in; `scopes` are asked for in place of those that the server names. Raises as `run` does, and
    `OSError`: the port of the redirect is in use."""
    # Servers take any port on this machine for a client that was registered by hand (RFC 8252).
    is_registered = settings.client_id is not None or settings.client_metadata_url is not None
    address = settings.redirect_uri or ("http://127.0.0.1:0/callback" if is_registered else None)
    async with listening(address) as listener:
        provider = _PersonProvider(url, settings, scopes, listener, show)
        found = await run(provider, url, transport)
    if settings.client_secret is not None:  # it stays where the settings have it
        found = found.model_copy(update={"client": {k: v for k, v in found.client.items() if k != "client_secret"}})
    return found


class _PersonProvider(ChoosesIssuer):
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
        if "@" in urlsplit(address).netloc:  # what is before it can look like the host that the person expects
            raise SignInRefused("the address of the page to sign in contains credentials")
        if "#" in address:
            raise SignInRefused("the address of the page to sign in has a fragment, which none may have")
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
