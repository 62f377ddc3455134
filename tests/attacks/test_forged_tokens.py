"""Threat: somebody is served as a principal with a token that nobody gave them: forged, altered, expired, of elsewhere.

Rule: only a token of the issuer for this server, signed with one of the issuer's keys, and a token of
`codemode-server tokens` that is neither expired nor revoked, prove who somebody is. The issuer is real, over HTTP.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import stat
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.ids import PrincipalId
from codemode_server.mcp_server.auth import issuer_keys
from codemode_server.mcp_server.auth.access_tokens import FILE_NAME, AccessTokens
from codemode_server.mcp_server.auth.authenticator import Authenticator
from codemode_server.mcp_server.auth.issuer_keys import IssuerKeys
from codemode_server.mcp_server.auth.oidc import MAX_TOKEN_CHARACTERS, OidcVerifier
from codemode_server.mcp_server.http_settings import OidcSettings
from tests.attacks.issuer import AUDIENCE, Issuer, issuing, rsa_key

ALICE = PrincipalId("alice")
own_key = cache(rsa_key)
"""The key of an attacker."""


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as found:
        yield found


def settings(issuer: Issuer, **more: Any) -> OidcSettings:
    return OidcSettings.model_validate({"issuer": issuer.url, "audience": AUDIENCE} | more)


async def served(token: str, oidc: OidcSettings | OidcVerifier) -> str | None:
    """The principal that somebody with this token is served as."""
    verifier = oidc if isinstance(oidc, OidcVerifier) else OidcVerifier(oidc)
    scope = {"headers": [(b"authorization", b"Bearer " + token.encode())]}
    user = await Authenticator(oidc=verifier).user_of(scope)
    return None if user is None or user.proved is None else user.proved.principal.principal_id


def part(content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def unsigned(issuer: Issuer, alg: str, signature: str = "") -> str:
    return f"{part({'alg': alg, 'typ': 'JWT', 'kid': 'rsa-1'})}.{part(issuer.claims())}.{signature}"


def with_shared_secret(issuer: Issuer, secret: bytes) -> str:
    """HS256 with a text that is no secret: a careless check takes the public key for one."""
    signed = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': 'rsa-1'})}.{part(issuer.claims())}"
    digest = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def altered(issuer: Issuer) -> str:
    header, _, signature = issuer.token().split(".")
    return f"{header}.{part(issuer.claims(sub='bob'))}.{signature}"


FORGERIES: dict[str, Callable[[Issuer], str]] = {
    "no signature, alg none": lambda it: unsigned(it, "none"),
    "HS256 with the public key": lambda it: with_shared_secret(it, it.pem),
    "another key": lambda it: it.token(rsa_key()),
    "another principal in a signed token": altered,
    "the name of another key": lambda it: it.token(header={"kid": "ec-1"}),
    "a key of its own in the header": lambda it: it.token(
        own_key(), header={"kid": "own", "jwk": Issuer.jwk(own_key(), "own")}
    ),
    "the address of a key of its own": lambda it: it.token(
        own_key(), header={"kid": "own", "jku": "http://127.0.0.1:9/keys", "x5u": "http://127.0.0.1:9/x"}
    ),
    "expired": lambda it: it.token(exp=int(time.time()) - 60),
    "without an end": lambda it: it.token(exp=None),
    "not valid yet": lambda it: it.token(nbf=int(time.time()) + 600),
    "another audience": lambda it: it.token(aud="another"),
    "another issuer": lambda it: it.token(iss="https://login.example.com"),
    "an issuer that is a list": lambda it: it.unusual(iss=[it.url]),
    "without a principal": lambda it: it.token(sub=None),
    "too long": lambda it: it.token(pad="x" * MAX_TOKEN_CHARACTERS),
    "deeply nested": lambda it: f"{base64.urlsafe_b64encode(b'[' * 9_000).decode()}.e30.AA",
}


async def test_a_forged_token_of_the_issuer_proves_nobody(issuer: Issuer) -> None:
    verifier = OidcVerifier(settings(issuer))
    for kind, forged in FORGERIES.items():
        assert await served(forged(issuer), verifier) is None, kind
        assert await served(issuer.token(), verifier) == "alice", "the control"
    by_other_key = issuer.token(issuer.ec_key, alg="ES256", header={"kid": "ec-1"})
    assert await served(by_other_key, settings(issuer)) == "alice", "the control"
    assert await served(by_other_key, settings(issuer, algorithms=["RS256"])) is None
    assert await served(issuer.token(issuer.ec_key, alg="ES256"), settings(issuer)) is None, "the name of the RSA key"


@pytest.mark.parametrize("algorithm", ["HS256", "none"])
def test_signatures_with_a_shared_secret_can_not_be_configured(issuer: Issuer, algorithm: str) -> None:
    with pytest.raises(ValueError, match="algorithms"):
        settings(issuer, algorithms=[algorithm])


async def test_a_claim_that_is_no_name_proves_nobody(issuer: Issuer) -> None:
    """Nor is anybody served as the person who runs the product, as long as that person has no name."""
    verifier = OidcVerifier(settings(issuer))
    for name in ("../x", "", "a\0b", "Alice", "\u0430lice", "con", "group:ops", "a" * 65, "default"):
        assert await served(issuer.token(sub=name), verifier) is None, name
    assert await served(issuer.token(sub="a" * 64), verifier) == "a" * 64, "the control"
    assert await served(issuer.token(sub="default"), settings(issuer, principals={"default": "carol"})) == "carol"


async def test_an_address_that_the_issuer_has_not_verified_is_no_name(issuer: Issuer) -> None:
    by_mail = OidcVerifier(settings(issuer, principal_claim="email"))
    for verified in ({}, {"email_verified": True}, {"email_verified": "true"}):
        token = issuer.unusual(email="bob@example.com", **verified)
        assert await served(token, by_mail) == "bob@example.com", "the control"
    for said in (False, "false", 1, None, [True]):
        assert await served(issuer.unusual(email="bob@example.com", email_verified=said), by_mail) is None


async def test_a_claim_names_groups_only_where_the_configuration_says_so(issuer: Issuer) -> None:
    async def groups(oidc: OidcSettings) -> object:
        found = await OidcVerifier(oidc).identity_of(issuer.token(groups=["ops", "../x", 7, "Dev"]))
        return found and sorted(found.groups)

    assert await groups(settings(issuer)) == []
    assert await groups(settings(issuer, groups_claim="groups")) == ["ops"]


async def test_unknown_keys_make_the_product_ask_the_issuer_once_a_minute_at_most() -> None:
    with issuing() as issuer:
        now = 1_000.0
        verifier = OidcVerifier(settings(issuer), IssuerKeys(settings(issuer), lambda: now))
        for number in range(50):
            assert await served(issuer.token(header={"kid": f"k{number}"}), verifier) is None
        assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]
        issuer.keys.append(Issuer.jwk(own_key(), "new"))
        assert await served(issuer.token(own_key(), header={"kid": "new"}), verifier) is None
        now += issuer_keys.RETRY_S
        assert await served(issuer.token(own_key(), header={"kid": "new"}), verifier) == "alice", "the control"


async def test_a_key_that_the_issuer_has_withdrawn_is_refused_and_an_outage_is_bridged_for_a_while() -> None:
    with issuing() as issuer:
        now = 1_000.0
        verifier = OidcVerifier(settings(issuer), IssuerKeys(settings(issuer), lambda: now))
        assert await served(issuer.token(), verifier) == "alice"
        issuer.is_down = True
        now += issuer_keys.REFRESH_S + 1
        assert await served(issuer.token(), verifier) == "alice", "the issuer is down"
        now += issuer_keys.MAX_AGE_S
        assert await served(issuer.token(), verifier) is None, "for too long"
        issuer.is_down = False
        now += issuer_keys.RETRY_S
        assert await served(issuer.token(), verifier) == "alice", "the control"
        issuer.keys = [Issuer.jwk(own_key(), "other")]
        now += issuer_keys.REFRESH_S + 1
        assert await served(issuer.token(), verifier) is None


async def test_keys_are_taken_from_the_issuer_that_is_configured() -> None:
    with issuing() as issuer:
        issuer.named = "https://login.example.com"
        assert await served(issuer.token(), settings(issuer)) is None
        issuer.named = issuer.url
        assert await served(issuer.token(), settings(issuer)) == "alice", "the control"


class TestTokensOfTheProduct:
    def test_are_stored_as_digests_in_a_private_file(self, tmp_path: Path) -> None:
        tokens = AccessTokens(tmp_path)
        token, record = tokens.create(ALICE, None)
        stored = (tmp_path / FILE_NAME).read_text()
        assert record.sha256 in stored
        assert token not in stored
        assert token.removeprefix("cms_") not in stored
        assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
        assert len(token) >= 43

    def test_end_when_they_are_revoked_or_expire_and_the_others_go_on(self, tmp_path: Path) -> None:
        now = 1_000.0
        tokens, running = AccessTokens(tmp_path, lambda: now), AccessTokens(tmp_path, lambda: now)
        first, record = tokens.create(ALICE, None)
        second, _ = tokens.create(ALICE, 60)
        assert running.identity_of(first) == running.identity_of(second) is not None, "the control"
        tokens.revoke(record.token_id)
        assert running.identity_of(first) is None
        assert running.identity_of(second) is not None
        now += 60
        assert running.identity_of(second) is None

    @pytest.mark.parametrize("content", ["", '{"tokens": [{"sha256": ""}]}'])
    def test_prove_nobody_where_the_file_is_damaged(self, tmp_path: Path, content: str) -> None:
        token, _ = (tokens := AccessTokens(tmp_path)).create(ALICE, None)
        assert tokens.identity_of(token) is not None, "the control"
        (tmp_path / FILE_NAME).write_text(content)
        assert tokens.identity_of(token) is None
        with pytest.raises(CodemodeError, match="no list of tokens"):
            tokens.records()

    def test_are_not_read_through_a_link(self, tmp_path: Path) -> None:
        elsewhere = AccessTokens(tmp_path / "elsewhere")
        token, _ = elsewhere.create(ALICE, None)
        (tmp_path / "state").mkdir(mode=0o700)
        (tmp_path / "state" / FILE_NAME).symlink_to(elsewhere.file)
        assert AccessTokens(tmp_path / "state").identity_of(token) is None
        assert elsewhere.identity_of(token) is not None, "the control"
