"""Lets the person sign in to a server with OAuth, for the `login` command and the pages."""

from __future__ import annotations

from collections.abc import Sequence

from codemode_server.config import LoadedSettings
from codemode_server.config.live import LiveConfig
from codemode_server.config.problems import no_server, printable
from codemode_server.config.settings import ServerSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.startup.upstream_catalog import sign_ins
from codemode_server.support.text import escaped
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings
from codemode_server.upstreams.auth.sign_ins import Show, signs_in


async def sign_in(loaded: LoadedSettings, server: str, show: Show, *, scopes: Sequence[str] = ()) -> str:
    """Wait until the person has signed in at the address that `show` gets, and store that; says what was done. Raises
    `CodemodeError`: nobody can sign in there, or somebody refuses."""
    settings = http_server(loaded, server)
    oauth = settings.oauth or OAuthSettings()
    if oauth.grant == "client_credentials":
        raise CodemodeError(f"server {server!r} has client credentials in upstream.yaml, so nobody signs in to it")
    if not signs_in(settings):
        raise CodemodeError(
            f"server {server!r} has an Authorization header or headers_command in upstream.yaml; remove that to sign in"
        )
    try:
        found = await sign_ins(loaded, LiveConfig()).sign_in(server, settings, show, scopes=scopes)
    except OSError as error:
        raise CodemodeError(f"{oauth.redirect_uri} can't be listened on: {error.strerror or error}") from None
    scope = f" with the scopes {escaped(found.scope)}" if found.scope else ""
    return f"signed in to {server!r} at {escaped(found.issuer)}{scope}; a running codemode-server notices in seconds"


def http_server(loaded: LoadedSettings, name: str) -> ServerSettings:
    """The settings of a server with a `url`. Raises `CodemodeError`: there is none of this name."""
    settings = loaded.settings.servers.get(name)
    if settings is None:
        known = [name for name, server in loaded.settings.servers.items() if server.url is not None]
        if not known:
            shown = printable(name)
            remedy = f"`codemode-server add {shown} URL` adds it"
            raise CodemodeError(f"there is no server {shown!r}, nor another one with a url; {remedy}")
        raise no_server(name, known, str(loaded.path), others="servers with a url:")
    if settings.url is None:
        raise CodemodeError(f"server {name!r} is a program on this machine; only servers with a url have a sign-in")
    return settings
