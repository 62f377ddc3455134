"""The socket for HTTP, and who is served on it."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemode_server.domain.errors import SettingsError

if TYPE_CHECKING:
    from codemode_server.config import LoadedSettings
    from codemode_server.mcp_server.auth.authenticator import Authenticator


@dataclass(frozen=True, slots=True)
class HttpListener:
    """An open port."""

    socket: socket.socket
    access: Authenticator

    @classmethod
    def open(cls, host: str, port: int, loaded: LoadedSettings | SettingsError, *, new_token: bool) -> HttpListener:
        """Open the port first, so that a port in use ends the command with a message."""
        from codemode_server.mcp_server.auth.access_tokens import AccessTokens
        from codemode_server.mcp_server.auth.authenticator import Authenticator
        from codemode_server.mcp_server.http_settings import HttpSettings
        from codemode_server.startup.stores import state_folder

        is_loopback = host in _LOOPBACK
        if isinstance(loaded, SettingsError):
            if not is_loopback:
                raise loaded
            settings, tokens = HttpSettings(), None
        else:
            settings, tokens = loaded.settings.http, AccessTokens(state_folder(loaded.settings))
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            # If the port is taken, whoever serves there goes on with the old token; once it can be connected to, the
            # token is there.
            access = Authenticator.of(settings, tokens, is_loopback=is_loopback, new_token=new_token)
            listener.listen()
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise SettingsError(f"--http: {host}:{port} can't be opened: {why}; give another port") from error
        # asyncio does this only for sockets that name their protocol; without it each answer waits 40 ms for an ACK.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(listener, access)

    @property
    def host(self) -> str:
        return str(self.socket.getsockname()[0])

    @property
    def tokens(self) -> frozenset[str]:
        """Tokens that must not be shown."""
        return frozenset(filter(None, [self.access.own]))

    def announce(self) -> None:
        """Print the address and the header that hosts need, the token only to a terminal: others may read a log."""
        host, port = self.host, self.socket.getsockname()[1]
        token = self.access.own if self.access.own and sys.stderr.isatty() else "TOKEN"
        print(
            f"codemode-server: http://{f'[{host}]' if ':' in host else host}:{port}/mcp\n"
            f'codemode-server: hosts need the header "Authorization": "Bearer {token}"; {self.access.hint}',
            file=sys.stderr,
        )


_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def address(text: str) -> tuple[str, int]:
    """The host and the port of `HOST:PORT`. Raises `SettingsError`."""
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) <= 65_535
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        is_address = host in _LOOPBACK or bool(ipaddress.ip_address(host))
    except ValueError:
        is_address = False
    if not is_address or not is_port:
        raise SettingsError(
            f"--http {text!r}: give ADDRESS:PORT with an IP address of this machine, such as 127.0.0.1:8765; others "
            "reach it at 0.0.0.0 or [::], and need tokens then"
        )
    return host, int(port)
