"""Tokens for machines: client credentials, which need no person."""

from __future__ import annotations

from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

from codemode_server.upstreams.auth.flow import ChoosesIssuer, ChosenScopes, MemoryStorage, run
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings
from codemode_server.upstreams.auth.sign_in import SignIn


class _MachineProvider(ChoosesIssuer, ClientCredentialsOAuthProvider):
    """mcp's provider, with our choice of the issuer."""


async def get_token(url: str, transport: str, settings: OAuthSettings) -> SignIn:
    """A new token.

    Raises:
        SignInRefused, AuthorizationUnavailable: as `flow.run` does.
    """
    provider = _MachineProvider(
        url,
        MemoryStorage(),
        settings.client_id or "",
        settings.client_secret or "",
        settings.token_endpoint_auth_method,
        " ".join(settings.scopes) or None,
        settings.issuer,
    )
    provider.chosen_issuer = settings.issuer
    if settings.scopes:
        provider.context.client_metadata = ChosenScopes(**dict(provider.context.client_metadata))
    found = await run(provider, url, transport)
    return found.model_copy(update={"client": {"client_id": settings.client_id}})
