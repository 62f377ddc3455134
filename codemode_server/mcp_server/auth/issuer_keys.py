"""The public keys of an OpenID Connect issuer: fetched when they are needed first, held for a bounded time.

A token chooses among these keys by its `kid` and nothing else: addresses and keys in its header are not looked at.
However many tokens with unknown keys come, the issuer is asked at most once a minute.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import anyio
import httpx2
import jwt

from codemode_server.mcp_server.http_settings import OidcSettings
from codemode_server.support.setting_types import is_safe_scheme
from codemode_server.upstreams.auth.guarded_http import guarded_client

logger = logging.getLogger(__name__)

REFRESH_S = 600.0
"""Age from which keys are fetched again, so that one that the issuer withdrew is not accepted for long."""
MAX_AGE_S = 3_600.0
"""Age up to which keys are used while the issuer can't be reached."""
RETRY_S = 60.0
"""Time between two requests to the issuer, for keys that it may have by now or because the last request failed."""
MAX_KEYS = 100
_DISCOVERY = "/.well-known/openid-configuration"
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
"""The kind of key that goes with signatures whose name begins so."""


class IssuerKeys:
    def __init__(self, settings: OidcSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._keys: list[dict[str, Any]] = []
        self._fetched_at: float | None = None
        self._asked_at: float | None = None
        self._fetching = anyio.Lock()

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key for a signature; None if the issuer has none. Without a `kid`, the only key that fits."""
        async with self._fetching:
            if self._age() > REFRESH_S or self._fitting(kid, algorithm) is None:
                await self._refresh()
            if self._age() > MAX_AGE_S:
                return None
            found = self._fitting(kid, algorithm)
        try:
            return None if found is None else jwt.PyJWK(found, algorithm)
        except jwt.PyJWTError as error:
            logger.warning("the issuer has a key that can't be used: %s", type(error).__name__)
            return None

    def _age(self) -> float:
        return float("inf") if self._fetched_at is None else self._clock() - self._fetched_at

    def _fitting(self, kid: str | None, algorithm: str) -> dict[str, Any] | None:
        fitting = [it for it in self._keys if _fits(it, algorithm) and kid in (None, it.get("kid"))]
        return fitting[0] if len(fitting) == 1 else None

    async def _refresh(self) -> None:
        now = self._clock()
        if self._asked_at is not None and now - self._asked_at < RETRY_S:
            return
        self._asked_at = now
        try:
            keys = await self._fetch()
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError) as error:
            logger.warning("the keys of the issuer can't be fetched: %s", error or type(error).__name__)
            return
        self._keys, self._fetched_at = keys, now

    async def _fetch(self) -> list[dict[str, Any]]:
        issuer, url = self._settings.issuer, self._settings.jwks_url
        async with guarded_client(issuer) as client:
            if url is None:
                found = await _json(client, issuer.rstrip("/") + _DISCOVERY)
                if found.get("issuer") != issuer:
                    raise ValueError("the issuer's configuration is that of another issuer")
                url = found.get("jwks_uri")
                if not isinstance(url, str) or not is_safe_scheme(url):
                    raise ValueError("the issuer's configuration has no `jwks_uri` with https")
            keys = (await _json(client, url)).get("keys")
        if not isinstance(keys, list) or len(keys) > MAX_KEYS:
            raise ValueError(f"the issuer's keys are no list of at most {MAX_KEYS}")
        return [key for key in keys if isinstance(key, dict)]


async def _json(client: httpx2.AsyncClient, url: str) -> dict[str, Any]:
    response = await client.get(url, headers={"accept": "application/json"})
    if response.status_code != 200:
        raise ValueError(f"{url} answered with status {response.status_code}")
    found = json.loads(response.content)
    if not isinstance(found, dict):
        raise ValueError(f"{url} answered with no object")  # noqa: TRY004 - one kind for all that is wrong there
    return found


def _fits(key: dict[str, Any], algorithm: str) -> bool:
    is_for_signatures = key.get("use") in (None, "sig")
    return is_for_signatures and key.get("kty") == _KINDS[algorithm[:2]] and key.get("alg") in (None, algorithm)
