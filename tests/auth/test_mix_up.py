"""Metadata that lies: what a hostile server or authorization server can't get, each with a control that gets through.

A hostile server here is scripted: no real one sends such answers.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from codemode_server.upstreams.auth.flow import sign_in
from codemode_server.upstreams.auth.guarded_http import _Network, _network, guarded_client
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings
from codemode_server.upstreams.auth.redirect_listener import RedirectListener
from codemode_server.upstreams.auth.token_requests import renew, revoke
from codemode_server.upstreams.auth.tokens import AuthorizationUnavailable, SignIn, SignInRefused
from tests.answering import Asked, answering
from tests.auth import kit

NO_SETTINGS = OAuthSettings()


class Scripted:
    """A server that answers each path with a status, headers and a body, and notes what it got."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.got: list[str] = []
        self.authorizations: list[str | None] = []

    def answer(self, path: str, body: Any, status: int = 200, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = (status, {"content-type": "application/json"} | named, content)


@contextmanager
def scripted() -> Iterator[Scripted]:
    def answer(asked: Asked) -> tuple[int, dict[str, str], bytes]:
        script.got.append(f"{asked.method} {asked.path} {asked.body.decode()}".strip())
        script.authorizations.append(asked.headers.get("authorization"))
        return script.answers.get(asked.path, (404, {}, b""))

    with answering(answer) as url:
        script = Scripted(url)
        yield script


@pytest.fixture
def hostile() -> Iterator[Scripted]:
    with scripted() as script:
        yield script


class Shown(Exception):
    """Raised in place of opening a browser."""


async def shown_address(url: str) -> str:
    """The page to which the person would be sent."""

    async def show(address: str, _listener: RedirectListener) -> None:
        raise Shown(address)

    try:
        await sign_in(url, "http", NO_SETTINGS, (), show)
    except Shown as shown:
        return str(shown)
    raise AssertionError("nothing was shown")


def protect(hostile: Scripted, resource: str, issuer: str) -> str:
    """Let it be a protected server with these metadata; gives its address."""
    where = f"{hostile.address}/metadata"
    hostile.answer("/mcp", {}, 401, www_authenticate=f'Bearer resource_metadata="{where}"')
    hostile.answer("/metadata", {"resource": resource, "authorization_servers": [issuer]})
    return f"{hostile.address}/mcp"


@pytest.mark.slow
@pytest.mark.network
async def test_metadata_of_another_resource_are_refused(
    hostile: Scripted, issuing: kit.AuthorizationServer, protected: kit.ProtectedServer
) -> None:
    """Or a hostile server gets a token for a good one."""
    url = protect(hostile, protected.url, issuing.issuer)
    with pytest.raises(SignInRefused, match="does not match expected"):
        await shown_address(url)
    control = await shown_address(protect(hostile, url, issuing.issuer))
    assert control.startswith(f"{issuing.issuer}/auth?")


@pytest.mark.slow
@pytest.mark.network
async def test_an_authorization_server_that_claims_another_issuer_is_refused(
    issuing: kit.AuthorizationServer, protected: kit.ProtectedServer
) -> None:
    issuing.control(lying_issuer="http://evil.example")
    try:
        with pytest.raises(SignInRefused, match="issuer mismatch"):
            await shown_address(protected.url)
    finally:
        issuing.control(lying_issuer="")
    assert await shown_address(protected.url)  # the control


async def test_an_authorization_server_without_pkce_is_refused(hostile: Scripted) -> None:
    url = protect(hostile, f"{hostile.address}/mcp", hostile.address)
    metadata = {
        "issuer": hostile.address,
        "authorization_endpoint": f"{hostile.address}/auth",
        "token_endpoint": f"{hostile.address}/token",
        "registration_endpoint": f"{hostile.address}/register",
        "response_types_supported": ["code"],
    }
    hostile.answer("/.well-known/oauth-authorization-server", metadata)
    hostile.answer("/register", {"client_id": "a", "redirect_uris": ["http://127.0.0.1/callback"]}, 201)
    with pytest.raises(SignInRefused, match="does not support PKCE"):
        await shown_address(url)
    hostile.answer("/.well-known/oauth-authorization-server", metadata | {"code_challenge_methods_supported": ["S256"]})
    assert await shown_address(url)  # the control


async def test_a_page_to_sign_in_whose_address_begins_like_that_of_another_is_refused(hostile: Scripted) -> None:
    """The pages and the terminal name the host: it must be the one that the browser opens."""
    url = protect(hostile, f"{hostile.address}/mcp", hostile.address)
    metadata = {
        "issuer": hostile.address,
        "token_endpoint": f"{hostile.address}/token",
        "registration_endpoint": f"{hostile.address}/register",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
    }
    hostile.answer("/register", {"client_id": "a", "redirect_uris": ["http://127.0.0.1/callback"]}, 201)

    async def shown(page: str) -> str:
        hostile.answer("/.well-known/oauth-authorization-server", metadata | {"authorization_endpoint": page})
        return await shown_address(url)

    for user in ("github.com", "github.com:443", "github.com%2Flogin", "github.com" + "a" * 5_000):
        with pytest.raises(SignInRefused, match="contains credentials"):
            await shown(f"https://{user}@evil.example/authorize")
    with pytest.raises(SignInRefused, match="has a fragment"):
        await shown("https://evil.example/#a")
    assert (await shown("https://evil.example/@github.com")).startswith("https://evil.example/@github.com?")  # control


class Names:
    """The system's names, and what some are answered with in place of that."""

    def __init__(self) -> None:
        self.answers: dict[str, list[str]] = {}
        self._system = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *args: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        found = self.answers.get(name, [name])
        return [entry for address in found for entry in self._system(address, port, *args, **options)]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names)
    return names


@pytest.mark.parametrize(
    ("addresses", "is_reached"),
    [
        (["127.0.0.1"], True),
        (["127.0.0.2", "::1"], True),
        (["93.184.216.34"], False),
        (["93.184.216.34", "127.0.0.1"], False),
        (["127.0.0.1", "93.184.216.34"], False),
        (["93.184.216.34", "10.9.9.9"], False),
        (["10.9.9.9"], False),
        (["10.9.9.9", "127.0.0.1"], False),
        (["169.254.1.1"], False),
    ],
)
async def test_a_server_reaches_this_machine_only_if_all_its_addresses_are_of_it(
    hostile: Scripted, names: Names, addresses: list[str], *, is_reached: bool
) -> None:
    names.answers["server.test"] = addresses
    hostile.answer("/token", {})
    async with guarded_client("https://server.test/mcp") as client:
        if is_reached:
            assert (await client.post(f"{hostile.address}/token")).status_code == 200
        else:
            with pytest.raises(httpx2.ConnectError, match="an address of a private network"):
                await client.post(f"{hostile.address}/token")
    assert bool(hostile.got) is is_reached


async def test_a_server_whose_name_gets_another_address_reaches_no_more_than_before(
    hostile: Scripted, names: Names
) -> None:
    hostile.answer("/token", {})
    names.answers["server.test"] = ["93.184.216.34"]
    async with guarded_client("https://server.test/mcp") as client:
        for _ in range(2):
            with pytest.raises(httpx2.ConnectError, match="an address of a private network"):
                await client.post(f"{hostile.address}/token")
            names.answers["server.test"] = ["127.0.0.1"]
    assert hostile.got == []
    async with guarded_client("https://server.test/mcp") as client:  # the control: it has that address from the start
        assert (await client.post(f"{hostile.address}/token")).status_code == 200


def test_addresses_that_lead_into_a_private_network_are_not_public() -> None:
    private = "64:ff9b::7f00:1 64:ff9b::a00:1 64:ff9b:1::808:808 2002:7f00:1::1 ::7f00:1 ::ffff:10.0.0.1 fc00::1"
    private += " 2001:0:7f00:1:0:0:80ff:fffe fe80::1 ff02::1 0.0.0.0 :: 100.64.0.1 10.0.0.1 169.254.1.1 127.0.0.1"
    public = "8.8.8.8 2606:4700::1111 64:ff9b::808:808 2002:808:808::1 ::ffff:8.8.8.8"
    assert [it for it in private.split() if _network(it) is _Network.PUBLIC] == []
    assert [it for it in public.split() if _network(it) is not _Network.PUBLIC] == []


REFRESH, NEW = "refresh-token-of-the-person", {"access_token": "new-token", "token_type": "Bearer", "expires_in": 60}


def sign_in_at(server: Scripted) -> SignIn:
    return SignIn(
        url=f"{server.address}/mcp",
        resource=f"{server.address}/mcp",
        issuer=server.address,
        token_endpoint=f"{server.address}/token",
        client={"client_id": "a"},
        access_token="old",
        refresh_token=REFRESH,
    )


async def test_a_refresh_token_follows_no_redirect(hostile: Scripted) -> None:
    with scripted() as other:
        other.answer("/token", NEW)
        hostile.answer("/token", b"", 307, location=f"{other.address}/token")
        with pytest.raises(AuthorizationUnavailable, match="HTTP 307"):
            await renew(NO_SETTINGS, sign_in_at(hostile))
        assert other.got == []
    hostile.answer("/token", NEW)
    assert (await renew(NO_SETTINGS, sign_in_at(hostile))).access_token == "new-token"  # the control


@pytest.mark.parametrize("request_of", [renew, revoke])
async def test_a_server_whose_name_leads_here_later_sends_no_stored_request_to_a_service_of_this_machine(
    hostile: Scripted, names: Names, request_of: Callable[[OAuthSettings, SignIn], Awaitable[object]]
) -> None:
    """At `logout` and at a renewal nothing shows that the server is where it was at the sign-in."""
    hostile.answer("/token", NEW)
    names.answers["server.test"] = ["127.0.0.1"]
    here = sign_in_at(hostile).model_copy(update={"revocation_endpoint": f"{hostile.address}/token"})
    with pytest.raises(AuthorizationUnavailable, match="is not https, so nothing is sent there"):
        await request_of(NO_SETTINGS, here.model_copy(update={"url": "https://server.test/mcp"}))
    assert hostile.got == []
    assert await request_of(NO_SETTINGS, here)  # the control


async def test_what_an_authorization_server_says_about_a_token_is_not_repeated(hostile: Scripted) -> None:
    said = {"error": "invalid_grant", "error_description": f"unknown token {REFRESH}"}
    hostile.answer("/token", said, 400)
    with pytest.raises(SignInRefused, match="invalid_grant") as refused:
        await renew(NO_SETTINGS, sign_in_at(hostile))
    assert REFRESH not in str(refused.value)
    assert any(REFRESH in request for request in hostile.got)  # the control: it was sent


@pytest.mark.parametrize(
    "answer",
    [
        NEW | {"access_token": "a\r\nX-Injected: b"},
        b'{"access_token": "' + b"x" * 8_000_000 + b'", "token_type": "Bearer"}',
    ],
    ids=["it would end its header", "it has no end"],
)
async def test_a_token_that_can_not_be_one_is_not_taken(hostile: Scripted, answer: Any) -> None:
    hostile.answer("/token", answer)
    with pytest.raises(AuthorizationUnavailable, match="with no token"):
        await renew(NO_SETTINGS, sign_in_at(hostile))
