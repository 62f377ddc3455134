"""Who is served over HTTP: put together from the settings when the port is opened, before anybody is served.

On loopback, the person who runs the product is served with the token in a file of theirs. Others need a token of
`codemode-server tokens` or of the issuer, and so does everybody on other addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from codemode_server.domain.errors import SettingsError
from codemode_server.front import http_token
from codemode_server.front.auth.access_tokens import AccessTokens
from codemode_server.front.auth.authenticator import TokenAuthenticator
from codemode_server.front.auth.oidc import OidcVerifier
from codemode_server.front.http import Refusal
from codemode_server.http_settings import HttpSettings
from codemode_server.text import escaped

_CREATE = "codemode-server tokens create PRINCIPAL"


@dataclass(frozen=True, slots=True)
class HttpAccessSettings:
    """Settings of HTTP access."""

    http: HttpSettings
    state_folder: Path


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """Who is served on one port."""

    settings: HttpAccessSettings | None
    """None if the configuration can't be used: then only the person who runs the product is told why."""
    own_token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, settings: HttpAccessSettings | SettingsError, *, is_loopback: bool, new_token: bool) -> HttpAccess:
        """Who is served on a port. Raises `SettingsError`: nobody could be; or the token can't be read or written."""
        usable = None if isinstance(settings, SettingsError) else settings
        if is_loopback:
            return cls(usable, http_token.token(is_new=new_token))
        if isinstance(settings, SettingsError):
            raise settings
        if new_token:
            raise SettingsError(f"--new-token is for loopback; on other addresses, tokens are made with: {_CREATE}")
        if settings.http.oidc is None and not AccessTokens(settings.state_folder).has_valid():
            raise SettingsError(
                f"--http: on an address that others reach, everybody needs a token. Make one with: {_CREATE}; or set "
                "http.oidc in upstream.yaml"
            )
        return cls(settings)

    @property
    def url(self) -> str | None:
        """The address under which hosts reach the product, if the configuration names one."""
        return None if self.settings is None else self.settings.http.url

    @property
    def hint(self) -> str:
        """Where the person finds a token."""
        if self.own_token is not None:
            return f"the token is in {escaped(str(http_token.token_file()))}"
        return f"tokens are made with: {_CREATE}. There is no encryption: put a proxy with TLS in front"

    def checks(self) -> tuple[TokenAuthenticator, Refusal]:
        """Authenticator of requests, and the response to those that fail."""
        settings, oidc = self.settings, None if self.settings is None else self.settings.http.oidc
        authenticator = TokenAuthenticator(
            self.own_token,
            None if settings is None else AccessTokens(settings.state_folder),
            None if oidc is None else OidcVerifier(oidc),
        )
        finds = (
            f"The user who runs it finds the token in {escaped(str(http_token.token_file()))}"
            if self.own_token is not None
            else "Ask the user who runs it for one"
        )
        text = f"This server needs its token, in the header `Authorization: Bearer TOKEN`. {finds}\n"
        return authenticator, Refusal(text, self.url, oidc.issuer) if oidc is not None else Refusal(text)
