"""Checks the tokens (JWT) of an OpenID Connect issuer, and finds the principal that each names.

Everything that a token says is a claim of somebody unknown until its signature is checked with a key of the issuer, and
the settings, not the token, say which signatures there may be.
"""

from __future__ import annotations

import logging
from typing import Any

import jwt

from codemode_server.config.live import DEFAULT_PRINCIPAL
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Identity, Principal, checked_name, principal_id
from codemode_server.mcp_server.auth.issuer_keys import IssuerKeys
from codemode_server.mcp_server.http_settings import OidcSettings

logger = logging.getLogger(__name__)

LEEWAY_S = 30
"""How far the issuer's clock may be from ours."""
MAX_TOKEN_CHARACTERS = 16_384
MAX_GROUPS = 200
_REQUIRED = ["exp", "iss", "aud"]


class OidcVerifier:
    """Finds the principal and the groups of a token."""

    def __init__(self, settings: OidcSettings, keys: IssuerKeys | None = None) -> None:
        self._settings = settings
        self._keys = keys or IssuerKeys(settings)

    async def identity_of(self, token: str) -> Identity | None:
        """Whose token it is; None if it is invalid, for the reason that is logged."""
        try:
            return await self._verified(token)
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            # Messages of the library may hold parts of the token; the name of the error says what is wrong.
            why = str(error) if type(error) is ValueError else type(error).__name__
            logger.info("a token of the issuer was refused: %s", why)
            return None

    async def _verified(self, token: str) -> Identity:
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise ValueError("it is too long")
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        allowed = next((it for it in self._settings.algorithms if it == algorithm), None)
        if allowed is None:
            raise ValueError("its algorithm is not among http.oidc.algorithms")
        if (key := await self._keys.find(kid, allowed)) is None:
            raise ValueError("the issuer has no key for it")
        claims = jwt.decode(
            token,
            key,
            algorithms=[allowed],
            audience=self._settings.audience,
            issuer=self._settings.issuer,
            leeway=LEEWAY_S,
            options={"require": _REQUIRED},
        )
        return Identity(Principal(PrincipalId(self._principal(claims))), self._groups(claims))

    def _principal(self, claims: dict[str, Any]) -> str:
        name, claim = self._settings.principal_claim, claims.get(self._settings.principal_claim)
        if not isinstance(claim, str):
            raise ValueError(f"it has no claim {name!r} (http.oidc.principal_claim)")  # noqa: TRY004
        if name == "email" and not _is_verified(claims):
            raise ValueError("the issuer has not verified its claim 'email'")
        if claim in self._settings.principals:
            return self._settings.principals[claim]
        try:
            found = principal_id(claim)
        except ValueError as error:
            raise ValueError(f"its claim {name!r} {error}; http.oidc.principals can give it a name") from None
        if found == DEFAULT_PRINCIPAL:
            raise ValueError(f"its claim {name!r} is {found!r}, the principal of the person who runs the server")
        return found

    def _groups(self, claims: dict[str, Any]) -> frozenset[str]:
        """The groups that have a valid name; a rule can name no others."""
        claim = self._settings.groups_claim
        found = None if claim is None else claims.get(claim)
        if found is None:
            return frozenset()
        if not isinstance(found, list) or len(found) > MAX_GROUPS:
            raise ValueError(f"its claim {claim!r} is no list of at most {MAX_GROUPS} groups")
        return frozenset(it for it in found if isinstance(it, str) and _is_name(it))


def _is_verified(claims: dict[str, Any]) -> bool:
    """True unless the issuer says that an address is unverified; some issuers write the boolean as a text."""
    found = claims.get("email_verified", True)
    return found is True or found == "true"


def _is_name(text: str) -> bool:
    try:
        return bool(checked_name(text))
    except ValueError:
        return False
