"""Personal data as tokens: from a sheet to a CRM, through the real product, sandbox and upstreams.

The model sees tokens, the servers that may receive the data see the values.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from codemode_server.domain.ids import PrincipalId
from codemode_server.features.guardrails import Block, GuardedCall, GuardedResult, Guardrail, Pass
from codemode_server.features.privacy.token_store import TokenStore
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.token_cipher import TokenCipher
from tests.database import rows

from .person import Person
from .product import configuration, in_memory, office, over_stdio

pytestmark = pytest.mark.slow

SHEET = "from servers.google_drive import get_sheet\nrows = get_sheet('abc123')[:3]\n"
TO_CRM = (
    "from servers.salesforce import update_record\n"
    "for row in rows:\n    update_record('SalesMeeting', row['Order ID'], {'email': row['Customer']})\n"
    "f'{len(rows)} updated'"
)
TO_GITHUB = (
    "from servers.github import create_issue\n"
    "create_issue('acme', 'web', 'Customer', body='see ' + rows[0]['Customer'])"
)
ORIGINAL = "customer000@example.com"
TOLD = "Give them to tools as they are"


def protected(folder: Path, *, principal: str = "default", payloads: str = "shapes", **privacy: Any) -> Path:
    settings = {"servers": {"google_drive": "tokens"}, "release": {"salesforce": ["email"]}}
    state = {"dir": str(folder / "state"), "payloads": payloads}
    return configuration(folder, privacy=settings | privacy, principal=principal, state=state)


async def test_a_program_sees_tokens_and_the_crm_receives_the_values(tmp_path: Path) -> None:
    async with in_memory(protected(tmp_path), mode="legacy") as host:
        assert TOLD not in (await host.run("1")).text
        seen = await host.run(SHEET + "print(rows[0])\n[row['Customer'] for row in rows]")
        assert seen.value == ["<EMAIL_1>", "<EMAIL_2>", "<EMAIL_3>"]
        assert "example.com" not in seen.text
        assert TOLD in seen.text, "the model is told once in a session what tokens are"
        moved = await host.run(SHEET + TO_CRM)
        assert moved.value == "3 updated"
        assert TOLD not in moved.text
        assert [it["data"]["email"] for it in host.reached("update_record")] == [
            f"customer00{number}@example.com" for number in range(3)
        ]


async def test_a_server_that_may_not_receive_the_kind_is_not_called(tmp_path: Path) -> None:
    """Nor one that gets a token that the model invents; an error about the arguments shows no part of a value."""
    send = "from servers.salesforce import update_record\nupdate_record('M', '1', {'to': 'for <EMAIL_999>'})"
    async with in_memory(protected(tmp_path)) as host:
        refused = await host.run(SHEET + TO_GITHUB)
        assert "github/create_issue may not receive personal data of the kind email" in refused.text
        assert "<EMAIL_1>" in refused.text
        assert "privacy.release" in refused.text
        invented = await host.run(send)
        assert "the arguments have <EMAIL_999>, and no such privacy token was ever made" in invented.text
        for padding in (36, 43):  # the text of such an error is cut, and no search finds a part of a value
            wrong = f"update_record('M', '1', 'x' * {padding} + rows[0]['Customer'] + ' ' * 30)"
            text = (await host.run(f"{SHEET}from servers.salesforce import update_record\n{wrong}")).text
            assert "customer00" not in text
            assert "'data' must be" in text, "the control: it says what is wrong"
        assert host.reached("create_issue") == host.reached("update_record") == []
        await host.run(send.replace("EMAIL_999", "EMAIL_1"))
        await host.run(send.replace("EMAIL_999", "FIELD_999"))
        to = [it["data"]["to"] for it in host.reached("update_record")]
        assert to == [f"for {ORIGINAL}", "for <FIELD_999>"], "the controls"


@pytest.mark.parametrize("customer", ["rows[0]['Customer']", f"'{ORIGINAL}'"])
async def test_a_limit_whose_condition_sees_the_value_counts_the_token_too(tmp_path: Path, customer: str) -> None:
    """The address in clear is the control."""
    rule = {
        "allow": "salesforce",
        "when": "args.recordId == 'o' && args.data.email.endsWith('.com')",
        "limit": "2/hour",
    }
    path = configuration(
        tmp_path,
        privacy={"servers": {"google_drive": "tokens"}, "release": {"salesforce": ["email"]}},
        permissions={"rules": [rule]},
    )
    send = "from servers.salesforce import update_record\n"
    send += f"for _ in range(4):\n    update_record('SalesMeeting', 'o', {{'email': {customer}}})"
    async with in_memory(path) as host:
        assert "its limit of 2/hour is reached" in (await host.run(SHEET + send)).text
        assert [it["data"]["email"] for it in host.reached("update_record")] == [ORIGINAL] * 2


@pytest.mark.parametrize(("answer", "sent"), [("accept", 1), ("decline", 0)])
async def test_the_person_may_be_asked_and_sees_the_values(tmp_path: Path, answer: str, sent: int) -> None:
    person = Person(action=answer, content={"answer": "Allow this call"})
    path = protected(tmp_path, on_release="ask")
    async with in_memory(path, elicitation_callback=person.elicit) as host:
        answered = await host.run(SHEET + TO_GITHUB)
        assert [it["body"] for it in host.reached("create_issue")] == [f"see {ORIGINAL}"] * sent
    assert ORIGINAL in person.seen[0].message
    assert ORIGINAL not in answered.text


async def test_a_token_is_the_same_after_a_restart_and_in_another_product(tmp_path: Path) -> None:
    path = protected(tmp_path)
    async with in_memory(path) as host:
        first = (await host.run(SHEET + "rows[2]['Customer']")).value
    async with in_memory(path) as one, in_memory(path) as other:
        assert (await one.run(SHEET + "rows[2]['Customer']")).value == first
        assert (await other.run(SHEET + "rows[2]['Customer']")).value == first
        await other.run(f"from servers.salesforce import update_record\nupdate_record('M', '1', {{'e': {first!r}}})")
        assert host.reached("update_record")[-1]["data"]["e"] == "customer002@example.com"


async def test_a_token_that_was_forgotten_stands_for_nothing_in_a_running_product(tmp_path: Path) -> None:
    path = protected(tmp_path)
    send = "from servers.salesforce import update_record\nupdate_record('M', '1', {'to': 'for <EMAIL_1>'})"
    async with in_memory(path) as host:
        await host.run(SHEET + "rows[0]")
        await host.run(send)
        assert host.reached("update_record")[-1]["data"]["to"] == f"for {ORIGINAL}", "the control"
        await forget(path, "<EMAIL_1>")
        refused = await host.run(send)
        assert "privacy tokens that were forgotten or have expired: <EMAIL_1>; read the data again" in refused.text
        assert len(host.reached("update_record")) == 1
        again = (await host.run(SHEET + "rows[0]['Customer']")).value
        assert again not in ("<EMAIL_1>", ORIGINAL), "a number is not given twice"


async def test_the_token_of_another_principal_is_plain_text(tmp_path: Path) -> None:
    send = "from servers.salesforce import update_record\nupdate_record('M', '1', {'to': '<EMAIL_1>'})"
    async with in_memory(protected(tmp_path, principal="alice")) as host:
        await host.run(SHEET + "rows[0]")
        await host.run(send)
    async with in_memory(protected(tmp_path, principal="bob")) as host:
        await host.run(send)
    assert [it["data"]["to"] for it in host.reached("update_record")] == [ORIGINAL, "<EMAIL_1>"]


async def test_rules_and_guardrails_decide_on_the_values_too(tmp_path: Path) -> None:
    """A token must not get past what would refuse its value."""
    rule = {"deny": "salesforce/*", "when": f"args.data.email == '{ORIGINAL}'"}
    privacy = {"servers": {"google_drive": "tokens"}, "release": {"salesforce": ["email"]}}
    async with in_memory(configuration(tmp_path, permissions={"rules": [rule]}, privacy=privacy)) as host:
        assert "args.data.email" in (await host.run(SHEET + TO_CRM)).text
        assert host.reached("update_record") == []
    rail = [{"use": "personal_data", "settings": {"action": "block"}}]
    async with in_memory(configuration(tmp_path, guardrails=rail, privacy=privacy)) as host:
        assert "guardrail 'personal_data'" in (await host.run(SHEET + TO_CRM)).text
        assert host.reached("update_record") == []


FAILING = """import json, sys
kind = sys.argv[1]
if kind == "stderr":
    sys.exit("no customer ann@lee.example")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {"tools": [{"name": "get", "inputSchema": {"type": "object"}}]}
    answer = {"result": result}
    if asked["method"] == "initialize" and kind == "address":
        about = {"name": "s", "version": "1"}
        answer = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}}
    elif asked["method"] != "tools/list":
        url = "https://a.example/?for=ann%40lee.example"
        data = {"elicitations": [{"url": url}]}
        before = "x" * 1993 if kind == "address" else "no seat for"  # the cut of an error halves the value
        code = -32042 if kind == "address" and asked["method"] == "tools/call" else -32000
        answer = {"error": {"code": code, "message": before + " ann@lee.example", "data": data}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


@pytest.mark.parametrize("is_on", [True, False])
async def test_no_file_of_the_product_holds_a_value_that_the_model_must_not_see(tmp_path: Path, is_on: bool) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    failing = {
        kind: {"command": sys.executable, "args": [str(tmp_path / "failing.py"), kind]}
        for kind in ("handshake", "stderr", "address")
    }
    tokens = dict.fromkeys(("google_drive", *failing), "tokens")
    path = configuration(
        tmp_path,
        office(tmp_path) | failing,
        privacy={"servers": tokens, "release": {"salesforce": ["email"]}} if is_on else {},
        state={"dir": str(tmp_path / "state"), "payloads": "all"},
    )
    async with over_stdio(path) as host:
        for kind in failing:
            assert "error" in (await host.run(f"import servers.{kind}\nservers.{kind}.get()")).text
        await host.run(SHEET + "open('/workspace/rows.txt', 'w').write(str(rows))\nprint(rows)\nrows")
        await host.run(SHEET + TO_CRM)
        await host.run(SHEET + "raise ValueError(rows[0]['Customer'])")
    holding = {
        it.relative_to(tmp_path / "state").parts[0]
        for it in (tmp_path / "state").rglob("*")
        if it.is_file() and re.search(rf"{ORIGINAL}|ann(@|%40)le".encode(), it.read_bytes())
    }
    assert not holding if is_on else "logs" in holding, holding
    recorded = [str(row) for row in rows(tmp_path / "state", "SELECT * FROM calls WHERE tool = 'update_record'")]
    assert any("sends personal data (email)" in row for row in recorded) is is_on
    assert any("<EMAIL_" in row for row in recorded) is is_on, "control: arguments are recorded"


async def forget(path: Path, *tokens: str) -> None:
    """As the command does, in another process."""
    folder = path.parent / "state"
    thread = DatabaseThread(folder)
    try:
        assert await TokenStore(thread, TokenCipher(folder)).forget(PrincipalId("default"), tokens) == len(tokens)
    finally:
        thread.close()


async def test_a_guardrail_that_looked_at_values_gives_the_model_no_reason(tmp_path: Path) -> None:
    rail = [{"use": "domains", "settings": {"allow": ["ok.example"]}}]
    privacy = {"servers": {"google_drive": "tokens"}, "release": {"github": ["email"]}}
    link = SHEET + (
        "from servers.github import create_issue\n"
        "create_issue('acme', 'web', 'Customer', body='https://ok.example' + {text} + '/')"
    )
    async with in_memory(configuration(tmp_path, guardrails=rail, privacy=privacy)) as host:
        refused = (await host.run(link.format(text="rows[0]['Customer']"))).text
        assert "guardrail 'domains' refuses what the privacy tokens in the arguments stand for" in refused
        assert "example.com" not in refused
        control = (await host.run(link.format(text="'.com'"))).text
        assert "guardrail 'domains': " in control, "the control: a reason about what the model wrote"
        assert host.reached("create_issue") == []


class NamesACustomer(Guardrail):
    """Blocks calls with a reason that has a customer's address."""

    def before_call(self, call: GuardedCall) -> Any:
        return Block(f"not to {ORIGINAL}") if call.tool == "create_issue" else Pass()

    def after_call(self, call: GuardedCall, result: GuardedResult) -> Any:
        return Block(f"belongs to {ORIGINAL}") if call.tool == "get_document" else Pass()


async def test_the_reason_of_a_guardrail_has_tokens_for_the_model(tmp_path: Path) -> None:
    rail, privacy = [{"use": f"{__name__}:NamesACustomer"}], {"servers": {"google_drive": "tokens"}}
    document = "from servers.google_drive import get_document\nget_document('abc')"
    async with in_memory(configuration(tmp_path, guardrails=rail, privacy=privacy)) as host:
        for call, reason in ((TO_GITHUB, "not to <EMAIL_1>"), (document, "withheld: guardrail")):
            refused = await host.run(SHEET + call)
            assert reason in refused.text
            assert "<EMAIL_1>" in refused.text
            assert ORIGINAL not in refused.text


async def test_the_reason_of_a_person_who_refuses_has_tokens_for_the_model(tmp_path: Path) -> None:
    person = Person(content={"answer": "No", "reason": f"not to {ORIGINAL}, nor today"})
    async with in_memory(protected(tmp_path, on_release="ask"), elicitation_callback=person.elicit) as host:
        refused = await host.run(SHEET + TO_GITHUB)
    assert "the user refused it: not to <EMAIL_1>, nor today" in refused.text
    assert ORIGINAL not in refused.text
