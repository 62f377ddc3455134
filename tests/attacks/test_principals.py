"""Threat: somebody who is served over HTTP reaches what belongs to another principal of the same product.

Rule: a request is its principal's, whom its token proves and nothing else names. What one principal stores, asks, runs
and signs in to does not exist for another. The product is a process of its own; each principal has a real client.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp.types import ElicitRequestParams, ElicitResult

from codemode_server.domain.ids import PrincipalId
from codemode_server.mcp_server.auth.access_tokens import AccessTokens
from codemode_server.secrets.encrypted_files import EncryptedFileStore
from codemode_server.upstreams.auth.tokens import SignIn
from tests.answering import served
from tests.attacks.issuer import AUDIENCE, issuing, rsa_key
from tests.attacks.test_http_of_others import asked
from tests.behaviour.product import PLAIN, configuration, office
from tests.hosts.kit import HttpHost, Mode, Served, forked_product, http_host, serving

pytestmark = pytest.mark.slow

KEYED = Path(__file__).parents[1] / "auth" / "keyed_server.py"
PERMISSIONS = {
    "rules": [
        {"deny": "github/boom", "principals": ["bob"]},
        {"ask": "github/create_issue"},
    ]
}
CREATE = "from servers.github import create_issue\ncreate_issue(owner='ada', repo='web', title='{}')['title']"
RESULT = "from codemode import results\nresults[{!r}]"
BOTH_ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


@dataclass
class Product:
    """A running product and the tokens of those whom it serves."""

    served: Served
    folder: Path
    config: Path
    tokens: AccessTokens
    _known: dict[str, str] = field(default_factory=dict)

    def token(self, principal: str) -> str:
        if principal not in self._known:
            self._known[principal] = self.tokens.create(PrincipalId(principal), None)[0]
        return self._known[principal]

    def header(self, principal: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token(principal)}"}

    @asynccontextmanager
    async def host(self, principal: str, mode: Mode = "legacy") -> AsyncIterator[HttpHost]:
        async with http_host(self.served, self.folder, mode, **self.header(principal)) as host:
            await host.settled()
            yield host

    def command(self, principal: str, *arguments: str) -> str:
        """What a command prints that runs as this principal."""
        done = subprocess.run(
            (*forked_product(), *arguments, "--config", str(self.config)),
            env={**os.environ, "CODEMODE_PRINCIPAL": principal, "XDG_DATA_HOME": str(self.served.data)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr


@contextmanager
def product(folder: Path, servers: dict[str, Any] | None = None, **sections: Any) -> Iterator[Product]:
    (folder / "state").mkdir(mode=0o700)
    sections.setdefault("sandbox", {"backend": "wasm"})
    config = configuration(folder, office(folder, "github") if servers is None else servers, **sections)
    with serving(config) as served:
        yield Product(served, folder, config, AccessTokens(folder / "state"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with product(
        tmp_path_factory.mktemp("principals"),
        permissions=PERMISSIONS,
        approvals={"answer_seconds": 0.5, "browser": "never"},
    ) as found:
        yield found


@asynccontextmanager
async def both(shared: Product, mode: Mode = "legacy") -> AsyncIterator[tuple[HttpHost, HttpHost]]:
    """Alice and bob, each connected."""
    async with shared.host("alice", mode) as alice, shared.host("bob", mode) as bob:
        yield alice, bob


class TestFiles:
    @BOTH_ERAS
    async def test_a_program_finds_the_files_of_its_own_principal_alone(self, shared: Product, mode: Mode) -> None:
        look = "import os\nsorted(os.listdir('/workspace'))"
        async with both(shared, mode) as (alice, bob):
            await alice.run(f"open('/workspace/of-alice-{mode}', 'w').write('a')")
            await bob.run(f"open('/workspace/of-bob-{mode}', 'w').write('b')")
            assert not [it for it in (await bob.run(look)).value if "alice" in it]
            assert not [it for it in (await alice.run(look)).value if "bob" in it]
            assert f"of-alice-{mode}" in (await alice.run(look)).value, "the control"

    async def test_no_path_leads_to_the_files_of_another(self, shared: Product) -> None:
        path = "/workspace/../alice/note"
        code = f"try: found = open({path!r}).read()\nexcept OSError as error: found = type(error).__name__\nfound"
        async with both(shared) as (alice, bob):
            await alice.run("open('/workspace/note', 'w').write('private')")
            assert (await bob.run(code)).value != "private"
            assert "private" not in (await bob.call("read_tool", path=path)).text
            assert "private" in (await alice.call("read_tool", path="/workspace/note")).text, "the control"


class TestExecutions:
    async def test_a_program_reads_no_result_of_another(self, shared: Product) -> None:
        async with both(shared) as (alice, bob):
            name = (await alice.run("['private'] + ['x' * 1_000] * 100")).content["execution_id"]
            assert (await bob.run(RESULT.format(name))).error["type"] == "KeyError"
            assert (await alice.run(f"{RESULT.format(name)}[0]")).value == "private", "the control"

    async def test_nobody_resumes_the_program_of_another(self, shared: Product) -> None:
        async with both(shared) as (alice, bob):
            name = await waiting(alice, "resumed")
            stolen = await bob.call("execute_code", resume=name)
            assert stolen.result.is_error
            unknown = await bob.call("execute_code", resume="x000000000000")
            assert stolen.text.replace(name, "") == unknown.text.replace("x000000000000", "")
            assert (await alice.call("execute_code", resume=name)).content["status"] == "waiting", "the control"

    async def test_no_command_shows_or_runs_the_program_of_another(self, shared: Product) -> None:
        async with shared.host("alice") as alice:
            name = str((await alice.run("'of alice'")).content["execution_id"])
        for action in ("show", "replay"):
            found = await printed(shared, "bob", "executions", action, name)
            unknown = await printed(shared, "bob", "executions", action, "x000000000000")
            assert found.replace(name, "") == unknown.replace("x000000000000", "")
            assert await printed(shared, "alice", "executions", action, name) != found, "the control"


async def waiting(host: HttpHost, title: str) -> str:
    """The name of an execution that waits for its principal's approval."""
    answer = await host.run(CREATE.format(title))
    assert answer.content["status"] == "waiting", answer.text
    return str(answer.content["execution_id"])


async def printed(shared: Product, principal: str, *arguments: str) -> str:
    return await anyio.to_thread.run_sync(shared.command, principal, *arguments)


class TestApprovals:
    async def test_no_command_shows_or_answers_the_question_of_another(self, shared: Product) -> None:
        async with shared.host("alice") as alice:
            name = await waiting(alice, "approved")
            listed = json.loads(await printed(shared, "alice", "approvals", "list", "--json"))
            (question,) = [it["id"] for it in listed if it["execution_id"] == name]
            assert question not in await printed(shared, "bob", "approvals", "list")
            for action in ("show", "approve", "deny"):
                found = await printed(shared, "bob", "approvals", action, question)
                unknown = await printed(shared, "bob", "approvals", action, "a00000000")
                assert found.replace(question, "") == unknown.replace("a00000000", "")
            assert (await alice.call("execute_code", resume=name)).content["status"] == "waiting"
            await printed(shared, "alice", "approvals", "deny", question, "--reason", "not today")
            assert "not today" in (await alice.call("execute_code", resume=name)).text, "the control"

    async def test_only_the_host_of_the_principal_is_asked_and_it_can_write_no_rule(self, shared: Product) -> None:
        seen: dict[str, list[ElicitRequestParams]] = {"alice": [], "bob": []}

        def person(name: str) -> Callable[..., Any]:
            async def answer(_context: Any, params: ElicitRequestParams) -> ElicitResult:
                seen[name].append(params)
                return ElicitResult(action="accept", content={"answer": "always", "decision": "always"})

            return answer

        before = shared.config.read_text()
        async with asking(shared, "bob", person("bob")), asking(shared, "alice", person("alice")) as alice:
            answer = await alice.run(CREATE.format("asked"))
            with anyio.fail_after(60):  # a busy machine may need longer than `answer_seconds`
                while not seen["alice"] and answer.content["status"] == "waiting":
                    answer = await alice.call("execute_code", resume=answer.content["execution_id"])
        assert seen["alice"]
        assert "Always" not in seen["alice"][0].message
        assert seen["bob"] == []
        assert shared.config.read_text() == before


def asking(shared: Product, principal: str, callback: Callable[..., Any]) -> AbstractAsyncContextManager[HttpHost]:
    """A host that shows forms."""
    callbacks = {"elicitation_callback": callback}
    return http_host(shared.served, shared.folder, "legacy", callbacks=callbacks, **shared.header(principal))


class TestSessions:
    async def test_a_session_serves_its_own_principal_alone(self, shared: Product) -> None:
        list_tools = {"mcp_protocol_version": "2025-11-25"}
        async with shared.host("alice") as alice:
            (session,) = alice.issued
            for other in (shared.header("bob"), shared.served.headers):
                assert asked(shared.served, "tools/list", {}, mcp_session_id=session, **list_tools, **other)[0] == 404
                assert asked(shared.served, "tools/list", {}, "DELETE", mcp_session_id=session, **other)[0] == 404
            nobody = {"Authorization": "Bearer cms_" + "x" * 43}
            for none in ({}, nobody, {"Authorization": f"Bearer {session}"}):
                assert asked(shared.served, "tools/list", {}, mcp_session_id=session, **list_tools, **none)[0] == 401
            own = {**list_tools, **shared.header("alice")}
            assert asked(shared.served, "tools/list", {}, mcp_session_id=session, **own)[0] == 200, "the control"

    async def test_a_token_that_is_revoked_ends_its_session(self, shared: Product) -> None:
        token, record = shared.tokens.create(PrincipalId("carol"), None)
        async with http_host(shared.served, shared.folder, "legacy", Authorization=f"Bearer {token}") as carol:
            assert (await carol.run("1 + 1")).value == 2, "the control"
            (session,) = carol.issued
            shared.tokens.revoke(record.token_id)
            headers = {"mcp_session_id": session, "mcp_protocol_version": "2025-11-25"}
            assert asked(shared.served, "tools/list", {}, Authorization=f"Bearer {token}", **headers)[0] == 401
            again = asked(shared.served, "tools/list", {}, **headers, **shared.header("carol"))
            assert again[0] == 200, "the control: another token of the same principal"


class TestTokensOfAnIssuer:
    async def test_a_host_is_told_where_to_sign_in_and_is_served_as_whom_its_token_names(self, tmp_path: Path) -> None:
        """RFC 9728, as hosts of MCP look for it."""
        look = "import os\nos.listdir('/workspace')"
        url = "https://tools.example.com/mcp"
        with issuing() as issuer:
            oidc = {"issuer": issuer.url, "audience": AUDIENCE, "groups_claim": "groups"}
            rules = [{"deny": "github/boom", "principals": ["group:guests"]}]
            sections = {"http": {"oidc": oidc, "url": url}, "permissions": {"rules": rules}}
            with product(tmp_path, office(tmp_path, "github"), **sections) as it:
                async with httpx2.AsyncClient() as client:
                    for forged in (issuer.token(rsa_key()), issuer.token(aud="another"), "a.b.c", "-"):
                        refused = await client.get(it.served.url, headers={"authorization": f"Bearer {forged}"})
                        assert refused.status_code == 401
                    metadata = "https://tools.example.com/.well-known/oauth-protected-resource/mcp"
                    assert f'resource_metadata="{metadata}"' in refused.headers["www-authenticate"]
                    here = it.served.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
                    found = (await client.get(here)).json()
                assert (found["resource"], found["authorization_servers"]) == (url, [issuer.url])
                for name, groups, says in (("alice", [], "kaboom"), ("bob", ["guests"], "is not permitted")):
                    token = issuer.token(sub=name, groups=groups)
                    async with http_host(it.served, tmp_path, "legacy", Authorization=f"Bearer {token}") as host:
                        await host.settled()
                        files = (await host.run(f"open('/workspace/{name}', 'w').write('')\n{look}")).value
                        assert {"alice", "bob"} & {*files} == {name}
                        assert says in (await host.run("from servers.github import boom\nboom()")).text


class TestRules:
    async def test_a_rule_for_another_principal_neither_refuses_nor_allows(self, shared: Product) -> None:
        code = "from servers.github import boom\ntry: boom()\nexcept Exception as error: found = str(error)\nfound"
        async with both(shared) as (alice, bob):
            assert "is not permitted" in (await bob.run(code)).text
            assert "kaboom" in (await alice.run(code)).value, "the control"
            assert "not permitted" in (await bob.call("list_dir", path="/servers/github")).text
            assert "not permitted" not in (await alice.call("list_dir", path="/servers/github")).text
            stub = "/servers/github/boom.py"
            assert "not permitted" in (await bob.call("read_tool", path=stub)).text
            assert "not permitted" not in (await alice.call("read_tool", path=stub)).text


def sign_in(folder: Path, principal: str, url: str) -> None:
    found = SignIn(
        url=url,
        resource=url,
        issuer=url,
        token_endpoint=f"{url}/token",
        client={"client_id": "c"},
        access_token=f"{principal}-0123456789",
    )
    EncryptedFileStore(folder / "state").set(f"oauth/{principal}/named", found.model_dump_json())


class TestUpstreams:
    WHO = "from servers.named import whoami\nwhoami()"

    async def test_each_principal_uses_a_server_with_its_own_sign_in(self, tmp_path: Path) -> None:
        with served(KEYED) as url, product(tmp_path, {"named": {"url": url}}) as it:
            for name in ("default", "alice", "bob+test@example.com"):
                sign_in(tmp_path, name, url)
            for name in ("alice", "bob+test@example.com", "alice"):
                async with it.host(name) as host:
                    assert (await host.run(self.WHO)).value == name
            async with http_host(it.served, tmp_path, "legacy") as person:
                assert (await person.run(self.WHO)).value == "default", "the control"
            async with it.host("carol") as host:
                answer = await host.run(self.WHO)
                assert answer.content["status"] == "failed", "who has not signed in uses the sign-in of nobody"
                assert "CODEMODE_PRINCIPAL=carol codemode-server login named" in answer.text


VALUE = "203.0.113.77"
CRM = (
    PLAIN
    + f"""
server = Server(sys.argv[1])

@server.tool(description="The address of a customer.")
def customer() -> dict[str, str]:
    return {{"ip_address": {VALUE!r}}}

@server.tool(description="Looks something up.")
def look_up(query: str) -> str:
    return "nothing"

server.run()
"""
)
READ_VALUE = "from servers.crm import customer\ncustomer()['ip_address']"
FORBIDDEN = f"from servers.web import look_up\nlook_up('http://{VALUE}/')"


async def test_the_reason_of_a_guardrail_has_tokens_of_its_principal_alone(tmp_path: Path) -> None:
    """Or one would learn that the value is personal data of the other."""
    (tmp_path / "crm.py").write_text(CRM)
    with product(
        tmp_path,
        {name: {"command": sys.executable, "args": [str(tmp_path / "crm.py"), name]} for name in ("crm", "web")},
        privacy={"servers": {"crm": "tokens"}},
        guardrails=[{"use": "domains", "settings": {"allow": ["example.org"]}}],
        state={"dir": str(tmp_path / "state"), "payloads": "all"},
    ) as it:
        async with both(it) as (alice, bob):
            assert (await alice.run(READ_VALUE)).value == "<IP_1>", "the control: it is hers"
            of_alice, of_bob = (await alice.run(FORBIDDEN)).text, (await bob.run(FORBIDDEN)).text
    assert "an address of '<IP_1>', which is not allowed" in of_alice
    assert f"an address of '{VALUE}', which is not allowed" in of_bob
