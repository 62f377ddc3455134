"""Requests to an authorization server about a token that exists: renewing it (RFC 6749) and revoking it (RFC 7009)."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import ValidationError

from codemode_server.support.setting_types import LOOPBACK_HOSTS
from codemode_server.support.text import one_line
from codemode_server.upstreams.auth.guarded_http import guarded_client
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings
from codemode_server.upstreams.auth.tokens import (
    AuthorizationUnavailable,
    SignIn,
    SignInRefused,
    is_sendable,
    renewal_time,
)

_WHOLE_S = 20.0
"""For a request with its answer."""
_FINAL = frozenset(
    {"invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope", "unsupported_grant_type"}
)
"""Errors of RFC 6749 that another try does not mend."""


async def renew(settings: OAuthSettings, sign_in: SignIn | None) -> SignIn:
    """The sign-in with a new token. Raises `SignInRefused`: the authorization server refuses the refresh token;
    `AuthorizationUnavailable`: it can't be asked."""
    if sign_in is None or sign_in.refresh_token is None:
        raise SignInRefused("")
    form = {"grant_type": "refresh_token", "refresh_token": sign_in.refresh_token, "resource": sign_in.resource}
    response = await _post(settings, sign_in, sign_in.token_endpoint, form)
    where = f"the authorization server {sign_in.issuer}"
    if response.status_code >= 400 and (error := error_code(response)) in _FINAL:
        raise SignInRefused(f"{where} answered the renewal with {error!r}")
    if response.status_code != 200:
        raise AuthorizationUnavailable(f"{where} answered the renewal of the token with HTTP {response.status_code}")
    try:
        token: OAuthToken | None = OAuthToken.model_validate_json(response.content)
    except ValidationError:
        token = None
    if token is None or not is_sendable(token.access_token):
        raise AuthorizationUnavailable(f"{where} answered the renewal of the token with no token")
    return sign_in.model_copy(
        update={
            "access_token": token.access_token,
            "refresh_token": token.refresh_token or sign_in.refresh_token,
            "renew_at": renewal_time(token.expires_in),
            "scope": token.scope or sign_in.scope,
        }
    )


async def revoke(settings: OAuthSettings, sign_in: SignIn) -> bool:
    """Revoke the tokens; False if the authorization server has no such request. Raises `AuthorizationUnavailable`: it
    can't be asked, or refuses."""
    if sign_in.revocation_endpoint is None:
        return False
    for hint, token in (("refresh_token", sign_in.refresh_token), ("access_token", sign_in.access_token)):
        if token is None:
            continue
        form = {"token": token, "token_type_hint": hint}
        response = await _post(settings, sign_in, sign_in.revocation_endpoint, form)
        if response.status_code != 200:
            raise AuthorizationUnavailable(
                f"the authorization server {sign_in.issuer} answered the revocation with HTTP {response.status_code}"
            )
    return True


def error_code(response: httpx2.Response) -> str:
    """The error of an OAuth answer, such as `invalid_grant`; empty if there is none."""
    try:
        said: Any = response.json()
    except ValueError:
        return ""
    code = said.get("error") if isinstance(said, dict) else None
    return code if isinstance(code, str) and re.fullmatch(r"[a-z_]{1,60}", code) else ""


async def _post(settings: OAuthSettings, sign_in: SignIn, endpoint: str, form: dict[str, str]) -> httpx2.Response:
    if not _is_for_stored(endpoint, sign_in):
        raise AuthorizationUnavailable(f"{one_line(endpoint, 200)} is not https, so nothing is sent there")
    client = OAuthClientInformationFull.model_validate(sign_in.client)
    if settings.client_secret is not None:
        client.client_secret = settings.client_secret
    context = OAuthContext(
        server_url=sign_in.url,
        client_metadata=OAuthClientMetadata(redirect_uris=None),
        storage=None,  # type: ignore[arg-type]  # only what authenticates a client is used
        redirect_handler=None,
        callback_handler=None,
        client_info=client,
    )
    data, headers = context.prepare_token_auth({"client_id": client.client_id, **form}, {"Accept": "application/json"})
    try:
        with anyio.fail_after(_WHOLE_S):
            async with guarded_client(sign_in.url) as http:
                return await http.post(endpoint, data=data, headers=headers)
    except (httpx2.HTTPError, TimeoutError) as error:
        raise AuthorizationUnavailable(
            f"the authorization server {sign_in.issuer} can't be reached: {error or type(error).__name__}"
        ) from None


def _is_for_stored(endpoint: str, sign_in: SignIn) -> bool:
    """True if a stored endpoint may be sent to. The server's name may lead to this machine now, and did not when the
    person signed in; only an address without a name stays on this machine."""
    return urlsplit(endpoint).scheme == "https" or urlsplit(sign_in.url).hostname in LOOPBACK_HOSTS
