"""Threat: a principal learns that a value is personal data of another one, since a text that it gets has a token, or
lacks the value.

Rule: what one principal gets depends on the known values of that principal alone. Each test has alice as its control:
the value is hers, so she gets a token. The product is a process of its own; each principal has a real client.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from tests.attacks.test_principals import Product, both, product
from tests.behaviour.product import PLAIN
from tests.hosts.kit import HttpHost

VALUE, OTHER = "203.0.113.77", "203.0.113.78"
SERVER = (
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
READ = "from servers.crm import customer\ncustomer()['ip_address']"
FORBIDDEN = f"from servers.web import look_up\nlook_up('http://{VALUE}/')"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    folder = tmp_path_factory.mktemp("values")
    (folder / "crm.py").write_text(SERVER)
    with product(
        folder,
        {name: {"command": sys.executable, "args": [str(folder / "crm.py"), name]} for name in ("crm", "web")},
        privacy={"servers": {"crm": "tokens"}},
        guardrails=[{"use": "domains", "settings": {"allow": ["example.org"]}}],
        state={"dir": str(folder / "state"), "payloads": "all"},
    ) as found:
        yield found


async def both_of(shared: Product, stack: AsyncExitStack) -> tuple[HttpHost, HttpHost]:
    """Alice, who has a token for the value, and bob, who has never read it."""
    alice, bob = await both(shared, stack)
    assert (await alice.run(READ)).value == "<IP_1>"
    return alice, bob


async def test_the_reason_of_a_guardrail_has_tokens_of_the_principal_alone(shared: Product) -> None:
    async with AsyncExitStack() as stack:
        alice, bob = await both_of(shared, stack)
        of_alice, of_bob = (await alice.run(FORBIDDEN)).text, (await bob.run(FORBIDDEN)).text
    assert "an address of '<IP_1>', which is not allowed" in of_alice
    assert f"an address of '{VALUE}', which is not allowed" in of_bob
