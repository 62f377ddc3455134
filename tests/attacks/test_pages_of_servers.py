"""The buttons of the page of servers against other pages, other programs, and what servers write.

Each attack has its control: the same form as the person's own page sends it.
"""

from __future__ import annotations

import html
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest

from codemode_server import cli
from codemode_server.cli.ui import opened
from codemode_server.config import load
from codemode_server.web.server_pages import key_of
from tests.behaviour.product import configuration
from tests.web.pages import Pages, pages

SERVERS = {"github": {"command": "/nonexistent/server"}, "linear": {"url": "http://127.0.0.1:1/mcp"}}
SIGN_IN = f"servers/{key_of('linear')}/sign-in"
pytestmark = pytest.mark.page_attack
HOSTILE = "</ins></li><script>fetch('//evil.example')</script>{{ 7*7 }}\u202e\u200b"


@contextmanager
def authorization_server(endpoint: str) -> Iterator[str]:
    """A fake MCP server that is its own authorization server, as a hostile one; gives its address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            origin = f"http://{self.headers['Host']}"
            if "oauth-protected-resource" in self.path:
                self.say(200, {"resource": f"{origin}/mcp", "authorization_servers": [origin]})
            elif "oauth-authorization-server" in self.path:
                named = f"{origin}{endpoint}" if endpoint.startswith("/") else endpoint
                issuer = {"issuer": origin, "token_endpoint": f"{origin}/token", "response_types_supported": ["code"]}
                ours = {"registration_endpoint": f"{origin}/register", "code_challenge_methods_supported": ["S256"]}
                self.say(200, {**issuer, **ours, "authorization_endpoint": named})
            else:
                self.say(404, {})

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/register":
                self.say(201, {**sent, "client_id": "c1"})
            else:
                self.say(401, {"error": "unauthorized"})

        def say(self, status: int, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "endpoint",
    [
        "javascript:alert(1)//",
        "http://accounts.example/authorize",
        "https://accounts.example@evil.example/authorize",
    ],
)
async def test_an_address_that_is_no_safe_page_is_not_shown(tmp_path: Path, endpoint: str) -> None:
    """What an authorization server names, which may be the attacker's."""
    with authorization_server(endpoint) as url:
        async with pages(tmp_path, servers={"linear": {"url": url}}) as (site, _):
            await site.post(SIGN_IN)
            shown = await until(site, "<form", beside="Asking the server")
    links = re.findall(r'href="([^"]+)"', shown.partition('id="sign-in"')[2].partition("</div>")[0])
    own = url.replace("/mcp", "/authorize?")
    assert all(it.startswith(own) for it in links), "where the answer can't be read, the usual address is tried"
    assert links or "Not signed in:" in shown


async def test_what_an_authorization_server_answers_is_text(tmp_path: Path) -> None:
    with authorization_server("/authorize") as url:
        async with pages(tmp_path, servers={"linear": {"url": url}}) as (site, _), httpx2.AsyncClient() as browser:
            await site.post(SIGN_IN)
            (link,) = re.findall(r'href="(http:[^"]+)"', await until(site, "Open this address"))
            asked = parse_qs(urlsplit(html.unescape(link)).query)
            await browser.get(asked["redirect_uri"][0], params={"state": asked["state"][0], "error": HOSTILE})
            shown = await ended(site)
    assert "evil.example" in shown, "control"
    assert "<script>" not in shown
    assert "\u202e" not in shown


async def until(site: Pages, text: str, *, beside: str = "no such text") -> str:
    """The page of the sign-in once it has this text, and the other one is gone."""
    with anyio.fail_after(30):
        while text not in (shown := await site.text(SIGN_IN)) or beside in shown:
            await anyio.sleep(0.02)
    return shown


async def ended(site: Pages) -> str:
    return await until(site, "Sign in again")


async def test_a_configuration_that_was_changed_since_it_was_trusted_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the current folder may be a repository's, and change with it while the pages are open."""
    planted = tmp_path / "planted"
    monkeypatch.chdir(tmp_path)
    path = configuration(tmp_path, SERVERS)
    assert cli.run(["trust", "--yes"]) == 0
    loaded = load()
    assert loaded.place is not None
    assert loaded.place.is_in_current_folder, "control"
    async with opened(loaded) as address, httpx2.AsyncClient(timeout=30) as browser:
        site = Pages(address, browser)
        await site.enter()
        evil = {"evil": {"command": "touch", "args": [str(planted)]}}
        configuration(tmp_path, evil)
        assert (await site.post("servers/check")).status_code == 303
        refused = await site.get("servers")
        while refused.status_code == 200 and "As checked" not in refused.text:
            refused = await site.get("servers")
    assert not planted.exists()
    assert "has changed since it was trusted" in refused.text
    assert path.exists()
