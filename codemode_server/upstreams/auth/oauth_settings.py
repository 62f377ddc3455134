"""The `oauth` section of a server in `upstream.yaml`."""

from __future__ import annotations

import re
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from codemode_server.support.setting_types import LOOPBACK_HOSTS, ProblemWithin, Section, checked_address

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")


class OAuthSettings(Section):
    """How to sign in to a server. Without it, `login` finds everything out and registers a client by itself."""

    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    """`authorization_code`: a person signs in with `codemode-server login`. `client_credentials`: the product gets its
    tokens by itself with `client_id` and `client_secret`, for machines."""
    client_id: str | None = Field(default=None, min_length=1, max_length=2_000)
    """A client that is registered with the authorization server; default: `login` registers one."""
    client_secret: str | None = Field(default=None, repr=False, min_length=1, max_length=10_000)
    """Its secret, if it has one; write a reference such as `${NAME}`."""
    token_endpoint_auth_method: Literal["client_secret_basic", "client_secret_post"] = "client_secret_post"  # noqa: S105
    """How the secret is sent: in the body or as basic authentication."""
    scopes: tuple[str, ...] = ()
    """Scopes to ask for; default: those that the server names."""
    redirect_uri: str | None = Field(default=None, max_length=2_000)
    """Address on this machine that is registered for the client, such as `http://127.0.0.1:8765/callback`; default: a
    random port."""
    client_metadata_url: str | None = Field(default=None, max_length=2_000)
    """Address of a client id metadata document, used where the authorization server supports that."""
    issuer: str | None = Field(default=None, max_length=2_000)
    """The authorization server, by its issuer identifier; default: the first that the server names. Required with
    `client_credentials`, so that the secret goes nowhere else."""

    @field_validator("scopes")
    @classmethod
    def _scopes_are_single(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        for index, scope in enumerate(scopes):
            if not is_scope(scope):
                raise ProblemWithin("is not the name of a scope", index)
        return scopes

    @field_validator("redirect_uri")
    @classmethod
    def _redirect_comes_here(cls, address: str | None) -> str | None:
        if address is not None:
            try:
                parts = urlsplit(address)
                port = parts.port
            except ValueError:
                parts, port = urlsplit(""), None
            if parts.scheme != "http" or parts.hostname not in LOOPBACK_HOSTS or not port or parts.query:
                raise ValueError("must be http://127.0.0.1:PORT/PATH or http://localhost:PORT/PATH")
        return address

    @field_validator("client_metadata_url")
    @classmethod
    def _document_is_public(cls, address: str | None) -> str | None:
        if address is not None and not re.match(r"https://[^/?#\s]+/\S+$", address):
            raise ValueError("must begin with https:// and have a path")
        return address

    @field_validator("issuer")
    @classmethod
    def _issuer_is_an_address(cls, address: str | None) -> str | None:
        return address if address is None else checked_address(address)

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.grant == "client_credentials":
            for name in ("client_id", "client_secret", "issuer"):
                if getattr(self, name) is None:
                    raise ProblemWithin("is required with `grant: client_credentials`", name)
        elif self.client_secret is not None and self.client_id is None:
            raise ProblemWithin("has no meaning without `client_id`", "client_secret")
        return self


def is_scope(text: str) -> bool:
    """True if it can be a scope (RFC 6749, appendix A.4)."""
    return bool(_SCOPE.fullmatch(text))
