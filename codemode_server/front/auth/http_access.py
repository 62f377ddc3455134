"""Who is served over HTTP: put together from the settings when the port is opened, before anybody is served.

On loopback, the person who runs the product is served with the token in a file of theirs. Others need a token of
`codemode-server tokens` or of the issuer, and so does everybody on other addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from codemode_server.domain.errors import SettingsError
from codemode_server.front import http_token
from codemode_server.front.auth.access_tokens import AccessTokens
from codemode_server.front.auth.authenticator import Authenticator
from codemode_server.front.auth.oidc import OidcVerifier
from codemode_server.front.http import Refusal
from codemode_server.http_settings import HttpSettings
from codemode_server.text import escaped

_CREATE = "codemode-server tokens create PRINCIPAL"


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """Who is served on one port."""

    settings: HttpSettings
    tokens: AccessTokens | None
    """None if the configuration can't be used: then only the person who runs the product is told why."""
    own_token: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, settings: HttpSettings, tokens: AccessTokens | None, *, is_loopback: bool, new_token: bool
    ) -> HttpAccess:
        """Who is served on a port. Raises `SettingsError`: nobody could be; or the token can't be read or written."""
        if is_loopback:
            return cls(settings, tokens, http_token.token(is_new=new_token))
        if new_token:
            raise SettingsError(f"--new-token is for loopback; on other addresses, tokens are made with: {_CREATE}")
        if settings.oidc is None and (tokens is None or not tokens.has_valid()):
            raise SettingsError(
                f"--http: on an address that others reach, everybody needs a token. Make one with: {_CREATE}; or set "
                "http.oidc in upstream.yaml"
            )
        return cls(settings, tokens)

    @property
    def hint(self) -> str:
        """Where the person finds a token."""
        if self.own_token is not None:
            return f"the token is in {escaped(str(http_token.token_file()))}"
        return f"tokens are made with: {_CREATE}. There is no encryption: put a proxy with TLS in front"

    def checks(self) -> tuple[Authenticator, Refusal]:
        """Authenticator of requests, and the response to those that fail."""
        oidc = self.settings.oidc
        authenticator = Authenticator(self.own_token, self.tokens, None if oidc is None else OidcVerifier(oidc))
        finds = (
            f"The user who runs it finds the token in {escaped(str(http_token.token_file()))}"
            if self.own_token is not None
            else "Ask the user who runs it for one"
        )
        text = f"This server needs its token, in the header `Authorization: Bearer TOKEN`. {finds}\n"
        return authenticator, Refusal(text, self.settings.url, oidc.issuer) if oidc is not None else Refusal(text)
