"""What the tests of this folder share: the authorization server, the protected server, a browser, and our commands."""

from __future__ import annotations

import hashlib
import html
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import anyio.to_thread
import httpx2

from codemode_server.secrets.encrypted_files import EncryptedFileStore
from codemode_server.upstreams.auth.flow import sign_in
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings
from codemode_server.upstreams.auth.redirect_listener import RedirectListener
from codemode_server.upstreams.auth.tokens import SignIn, StoredSignIn
from scripts.npm import CACHE
from tests import fork_server
from tests.answering import served
from tests.behaviour.product import configuration

FOLDER = Path(__file__).parent
PATIENCE_S = 60.0


@dataclass(frozen=True)
class AuthorizationServer:
    """A running oidc-provider."""

    issuer: str

    def control(self, **changes: Any) -> dict[str, Any]:
        """Change what it does; gives what it has counted."""
        answer = httpx2.post(f"{self.issuer}/control", json=changes)
        counted: dict[str, Any] = answer.json()
        return counted

    def grants(self, grant: str) -> int:
        """How many requests for a token with this grant came."""
        return int(self.control()["grants"].get(grant, 0))

    def is_active(self, token: str) -> bool:
        """Whether it takes this token."""
        auth = ("protected-server", "introspection-secret")
        said = httpx2.post(f"{self.issuer}/token/introspection", data={"token": token}, auth=auth).json()
        return bool(said["active"])

    def revoke(self, sign_in: SignIn) -> None:
        """What a person does on a page of their account: the sign-in ends."""
        form = {"token": sign_in.refresh_token or "", "client_id": sign_in.client["client_id"]}
        assert httpx2.post(f"{self.issuer}/token/revocation", data=form).status_code == 200


@contextmanager
def authorization_server(path: str, port: int, *resources: str) -> Iterator[AuthorizationServer]:
    script, packages = FOLDER / "authorization_server.mjs", CACHE / "oidc" / "node_modules"
    process = subprocess.Popen(
        ["node", str(script), str(packages), str(port), ",".join(resources)],
        env={**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield AuthorizationServer(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.communicate()


@dataclass(frozen=True)
class ProtectedServer:
    """A running protected server."""

    url: str
    log: Path

    def tokens(self) -> list[str]:
        """A digest of the token of each request, `-` where there was none."""
        return [line.split()[1] for line in self.log.read_text().splitlines()] if self.log.exists() else []


@contextmanager
def protected_server(folder: Path, port: int, issuer: str, name: str = "protected.log") -> Iterator[ProtectedServer]:
    log = folder / name
    with served(FOLDER / "protected_server.py", issuer, log, port=port) as url:
        yield ProtectedServer(url, log)


class Browser:
    """Follows pages as a browser does, and signs in where a page asks for it."""

    def __init__(self) -> None:
        self._client = httpx2.Client(follow_redirects=False, timeout=PATIENCE_S)

    def redirect(self, address: str) -> str:
        """Sign in and consent; gives the address of the redirect, which is not opened."""
        for _ in range(20):
            answer = self._client.get(address)
            while answer.is_redirect:
                address = urljoin(str(answer.url), answer.headers["location"])
                if "/callback" in urlsplit(address).path:
                    return address
                answer = self._client.get(address)
            form = dict(re.findall(r'<input[^>]*type="hidden"[^>]*name="([^"]+)"[^>]*value="([^"]*)"', answer.text))
            if 'name="login"' in answer.text:
                form |= {"login": "ada", "password": "any"}
            action = re.search(r'<form[^>]*action="([^"]+)"', answer.text)
            assert action is not None, answer.text
            answer = self._client.post(urljoin(str(answer.url), html.unescape(action[1])), data=form)
            address = urljoin(str(answer.url), answer.headers["location"])
        raise AssertionError("the pages have no end")

    def sign_in(self, address: str) -> httpx2.Response:
        """Sign in, and open the redirect."""
        return self._client.get(self.redirect(address))

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()


class Login:
    """The real command `codemode-server login`, without a browser of its own."""

    def __init__(self, config: Path, *arguments: str) -> None:
        command = fork_server.command("-m", "codemode_server", "login", *arguments, "--config", str(config))
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.said = ""

    def address(self) -> str:
        """The address that it prints."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if "/auth?" in line:
                return line.strip()
        raise AssertionError(self.said)

    def paste(self, address: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{address}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> tuple[int, str]:
        """Its exit code and all that it said."""
        out, error = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, self.said + error + out


def signed_in(config: Path, server: str = "protected", *arguments: str) -> str:
    """Sign in through the command; gives what it said."""
    login = Login(config, server, "--no-browser", *arguments)
    try:
        with Browser() as browser:
            page = browser.sign_in(login.address())
        code, said = login.end()
    finally:
        login.kill()
    assert (page.status_code, code) == (200, 0), said
    return said


async def person_signs_in(
    folder: Path, url: str, settings: OAuthSettings | None = None, *scopes: str, server: str = "protected"
) -> SignIn:
    """Sign in within this process, and store it as the command does."""

    async def show(address: str, _listener: RedirectListener) -> None:
        with Browser() as browser:
            page = await anyio.to_thread.run_sync(browser.sign_in, address)
        assert page.status_code == 200

    found = await sign_in(url, "http", settings or OAuthSettings(), scopes, show)
    await StoredSignIn(store(folder), "default", server).write(found)
    return found


configured = configuration


def store(folder: Path) -> EncryptedFileStore:
    return EncryptedFileStore(folder / "state")


def stored(folder: Path, server: str = "protected") -> SignIn:
    text = store(folder).get(f"oauth/default/{server}")
    assert text is not None
    found = SignIn.from_json(text)
    assert found is not None
    return found


def state_of(address: str) -> str:
    return parse_qs(urlsplit(address).query)["state"][0]


def iss_of(address: str) -> str:
    return parse_qs(urlsplit(address).query)["iss"][0]


def digest(token: str) -> str:
    """As the protected server logs it."""
    return hashlib.sha256(token.encode()).hexdigest()[:8]
