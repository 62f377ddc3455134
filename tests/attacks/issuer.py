"""An OpenID Connect issuer on loopback, with keys of its own: real HTTP, real signatures."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.answering import Asked, answering

AUDIENCE = "codemode"


def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@dataclass
class Issuer:
    """What it is and serves; change it to have it answer otherwise."""

    url: str
    key: rsa.RSAPrivateKey = field(default_factory=rsa_key)
    ec_key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    keys: list[dict[str, Any]] = field(default_factory=list)
    named: str = ""
    """The issuer that its configuration names."""
    is_down: bool = False
    asked: list[str] = field(default_factory=list)
    """The paths of the requests that came."""

    def __post_init__(self) -> None:
        self.named = self.url
        self.keys = [self.jwk(self.key, "rsa-1"), {**ECAlgorithm.to_jwk(self.ec_key.public_key(), True), "kid": "ec-1"}]

    @staticmethod
    def jwk(key: rsa.RSAPrivateKey, kid: str) -> dict[str, Any]:
        return {**RSAAlgorithm.to_jwk(key.public_key(), True), "kid": kid, "use": "sig"}

    @property
    def pem(self) -> bytes:
        """The public key, as an attacker can have it."""
        return self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Those of a valid token of alice; a change to None leaves one out."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 300} | changes
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key: Any = None, *, alg: str = "RS256", header: dict[str, Any] | None = None, **claims: Any) -> str:
        return jwt.encode(self.claims(**claims), key or self.key, alg, {"kid": "rsa-1"} | (header or {}))

    def unusual(self, **claims: Any) -> str:
        """A valid token of alice with claims of any type, also those that the library would not sign."""
        content = json.dumps(self.claims() | claims).encode()
        return jwt.PyJWS().encode(content, self.key, "RS256", {"kid": "rsa-1"})


@contextmanager
def issuing() -> Iterator[Issuer]:
    """An issuer that answers until the block is left."""

    def answer(asked: Asked) -> tuple[int, dict[str, str], bytes]:
        issuer.asked.append(asked.path)
        answers: dict[str, Any] = {
            "/.well-known/openid-configuration": {"issuer": issuer.named, "jwks_uri": f"{issuer.url}/keys"},
            "/keys": {"keys": issuer.keys},
        }
        body = json.dumps(answers.get(asked.path, {})).encode()
        return 503 if issuer.is_down else 200, {"content-type": "application/json"}, body

    with answering(answer) as url:
        issuer = Issuer(url)
        yield issuer
