"""The section `http` of `upstream.yaml`: who is served over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from codemode_server.domain.principals import checked_name
from codemode_server.support.setting_types import Seconds, Section, checked_address, is_safe_scheme

PrincipalName = Annotated[str, AfterValidator(checked_name)]
Claim = Annotated[str, Field(min_length=1, max_length=200)]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures with a key pair. A shared secret (HS256) is none: whoever can check such a token can make one."""


class OidcSettings(Section):
    """Tokens (JWT) of an OpenID Connect issuer. Its keys are fetched from it, and fetched again when they change."""

    issuer: str = Field(min_length=1, max_length=500)
    """Address of the issuer, exactly as it is in the claim `iss` of its tokens."""
    audience: Annotated[str, Field(min_length=1, max_length=500)]
    """Required value in the claim `aud` of a token: the name under which the issuer knows this server."""
    principal_claim: Claim = "sub"
    """The claim that is the name of the principal, for instance `preferred_username` or `email`. Choose one that the
    issuer's users can't change themselves."""
    principals: dict[Claim, PrincipalName] = Field(default={})
    """The principals that values of that claim stand for; needed where `sub` is no name of a principal. Other values
    stand for themselves."""
    groups_claim: Claim | None = None
    """The claim with the names of the principal's groups, a list of texts, for instance `groups`."""
    algorithms: tuple[Algorithm, ...] = Field(default=("RS256", "ES256"), min_length=1)
    """The signatures that are accepted."""
    jwks_url: str | None = Field(default=None, max_length=2_000)
    """Where the issuer's keys are; default: what `<issuer>/.well-known/openid-configuration` says."""

    @field_validator("issuer", "jwks_url")
    @classmethod
    def _is_encrypted(cls, url: str | None) -> str | None:
        """Whoever can change the keys on their way can make tokens."""
        if url is not None and not is_safe_scheme(checked_address(url)):
            raise ValueError("must begin with https://; http:// is for this machine")
        return url


class HttpSettings(Section):
    """Who is served over HTTP (`serve --http`), beside the person who runs this server."""

    read_at_start = None

    oidc: OidcSettings | None = None
    """Tokens of an OpenID Connect issuer. Those of `codemode-server tokens create` need no setting."""
    url: str | None = Field(default=None, max_length=500)
    """The address under which hosts reach this server, for instance `https://tools.example.com/mcp`. With `oidc`, hosts
    are told where to sign in, and requests for its host name are served."""

    drain_seconds: Seconds = 20.0
    """How long running programs may go on after SIGTERM, seconds. New ones are refused, and those that wait for
    somebody are suspended, to be resumed later. A second signal ends all at once."""

    @field_validator("url")
    @classmethod
    def _url_is_an_address(cls, url: str | None) -> str | None:
        return None if url is None else checked_address(url)
