"""Tokens for machines: client credentials, which need no person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from jwt import PyJWTError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)

from codemode_server.upstreams.auth.flow import ChoosesIssuer, ChosenScopes, MemoryStorage, run
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings
from codemode_server.upstreams.auth.sign_in import SignIn
from codemode_server.upstreams.auth.tokens import SignInRefused


class _SecretProvider(ChoosesIssuer, ClientCredentialsOAuthProvider):
    """mcp's provider, with our choice of the issuer."""


class _KeyProvider(ChoosesIssuer, PrivateKeyJWTOAuthProvider):
    """The same for a client with a key."""


async def get_token(url: str, transport: str, settings: OAuthSettings) -> SignIn:
    """A new token; without scopes in the settings, for those that the server names.

    Raises:
        SignInRefused, AuthorizationUnavailable: as `flow.run` does.
    """
    provider = _provider(url, settings)
    provider.chosen_issuer = settings.issuer
    if settings.scopes:
        provider.context.client_metadata = ChosenScopes(**dict(provider.context.client_metadata))
    found = await run(provider, url, transport)
    return found.model_copy(update={"client": {"client_id": settings.client_id}})


def _provider(url: str, settings: OAuthSettings) -> ChoosesIssuer:
    client_id, scope = settings.client_id or "", " ".join(settings.scopes) or None
    if settings.private_key is not None:
        signed = SignedJWTParameters(
            issuer=client_id,
            subject=client_id,
            signing_key=settings.private_key,
            signing_algorithm=settings.private_key_algorithm,
        )
        sign = _explained(signed.create_assertion_provider())
        return _KeyProvider(url, MemoryStorage(), client_id, sign, scope, settings.issuer)
    secret, method = settings.client_secret or "", settings.token_endpoint_auth_method
    return _SecretProvider(url, MemoryStorage(), client_id, secret, method, scope, settings.issuer)


def _explained(sign: Callable[[str], Awaitable[str]]) -> Callable[[str], Awaitable[str]]:
    """What libraries say of a key could hold parts of it."""

    async def explained(audience: str) -> str:
        try:
            return await sign(audience)
        except (ValueError, TypeError, PyJWTError):
            raise SignInRefused("`private_key` is no key in PEM for `private_key_algorithm`") from None

    return explained
