"""Result of a sign-in: the tokens, and their server, issuer and client."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.to_thread import run_sync
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from codemode_server.secrets.store import SIGN_IN, SecretStore
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings

_EARLY_S = 30.0
"""A token is renewed this long before it expires, or a tenth of its time: clocks differ, and a request takes time."""

_MIN_MASKED_CHARACTERS = 6


class SignIn(BaseModel):
    """One sign-in, as it is stored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str
    """The server's address in `upstream.yaml` when the person signed in. Tokens are sent to no other."""
    resource: str
    """The resource that the tokens were asked for (RFC 8707)."""
    issuer: str
    token_endpoint: str
    revocation_endpoint: str | None = None
    client: dict[str, Any] = Field(repr=False)
    """The client as registered, in mcp's form."""
    access_token: str = Field(repr=False)
    refresh_token: str | None = Field(default=None, repr=False)
    renew_at: float | None = None
    """From when on it is renewed before it is sent, in seconds since the epoch; None: once it is refused."""
    scope: str | None = None

    @classmethod
    def from_json(cls, text: str) -> SignIn | None:
        """The sign-in that `model_dump_json` wrote; None for anything else."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            return None

    @property
    def secrets(self) -> frozenset[str]:
        """Values that must not be shown. A shorter token protects nothing, and masking it would spoil results."""
        found = (self.access_token, self.refresh_token, self.client.get("client_secret"))
        return frozenset(value for value in found if isinstance(value, str) and len(value) >= _MIN_MASKED_CHARACTERS)

    @property
    def has_expired(self) -> bool:
        return self.renew_at is not None and time.time() > self.renew_at

    def is_for(self, url: str, settings: OAuthSettings) -> bool:
        """True if it is for this address, and for the issuer and client that the settings name."""
        return (
            self.url == url
            and (settings.issuer is None or settings.issuer.rstrip("/") == self.issuer.rstrip("/"))
            and (settings.client_id is None or settings.client_id == self.client.get("client_id"))
        )


def is_sendable(token: str) -> bool:
    """True if a token can be part of an HTTP header."""
    return re.fullmatch(r"[\x21-\x7e]{1,65536}", token) is not None


def renewal_time(expires_in: int | None) -> float | None:
    """When to renew a new token that expires in so many seconds."""
    return None if expires_in is None else time.time() + expires_in - min(_EARLY_S, expires_in / 10)


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


class StoredSignIn:
    """One entry of the store. Every method raises `SecretUnavailable` if the store can't be used."""

    def __init__(self, store: SecretStore, principal: str, server: str) -> None:
        self._store = store
        self._name = f"{SIGN_IN}{principal}/{server}"

    async def read(self) -> SignIn | None:
        """The sign-in; None if there is none, or only what another version wrote."""
        text = await run_sync(self._store.get, self._name)
        return None if text is None else SignIn.from_json(text)

    async def write(self, sign_in: SignIn) -> None:
        """Store it; once this returns, it survives a crash."""
        await run_sync(self._store.set, self._name, sign_in.model_dump_json())

    async def remove(self) -> bool:
        """Forget it; False if there was none."""
        return await run_sync(self._store.remove, self._name)

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the lock between processes. Raises `SecretUnavailable`: another process holds it for too long."""
        with anyio.CancelScope(shield=True):  # a thread that waits for the lock can't be stopped, and would keep it
            lock = self._store.lock(self._name)
            await run_sync(lock.__enter__)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await run_sync(partial(lock.__exit__, None, None, None))
