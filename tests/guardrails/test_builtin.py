"""What the built-in guardrails block, and what they let through. Each is asked as the product asks it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from codemode_server.features.guardrails import Ask, Block, GuardedCall, Pass
from codemode_server.features.guardrails.builtin.domains import DomainsGuardrail, DomainsSettings
from codemode_server.features.guardrails.builtin.secrets import SecretsGuardrail, SecretsSettings
from codemode_server.features.guardrails.builtin.size import SizeGuardrail, SizeSettings
from codemode_server.features.guardrails.builtin.texts import MAX_ESCAPES
from codemode_server.features.guardrails.testing import GuardrailProbe, guarded_call

TOKEN = "ghp_" + "a1B2c3D4e5" * 4
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE"


def send(**arguments: Any) -> GuardedCall:
    return guarded_call("mail/send", **arguments)


def domains(**settings: Any) -> GuardrailProbe:
    return GuardrailProbe(DomainsGuardrail(DomainsSettings(**settings)))


class TestSecrets:
    probe = GuardrailProbe(SecretsGuardrail(SecretsSettings()))

    @pytest.mark.parametrize(
        "arguments",
        [
            {"body": f"use {TOKEN} for it"},
            {"rows": [{"cells": ["a", {"deep": [TOKEN]}]}]},
            {"headers": {TOKEN: "x"}},
            {"body": quote(f"token={TOKEN}", safe="")},
            {"body": quote(quote(f"({TOKEN})"))},
            {"body": TOKEN[:10] + "\u200b" + TOKEN[10:]},
            {"body": "\uff47\uff48\uff50_" + TOKEN[4:]},
            {"body": KEY},
            {"url": "postgres://ada:hunter22@db.example/orders"},
        ],
    )
    async def test_a_credential_is_blocked_wherever_and_however_it_stands(self, arguments: dict[str, Any]) -> None:
        verdict = await self.probe.call(send(**arguments))
        assert isinstance(verdict, Block)
        assert TOKEN not in verdict.reason
        assert "hunter22" not in verdict.reason

    @pytest.mark.parametrize(
        "arguments",
        [
            {"body": "the token is in the vault", "to": ["ada@example.com"]},
            {"body": "see ghp_short and sk-no"},
            {"url": "https://example.com:8080/a?b=c@d"},
            {"body": "-----BEGIN PUBLIC KEY-----"},
            {"count": 3, "flag": None},
        ],
    )
    async def test_what_is_no_credential_passes(self, arguments: dict[str, Any]) -> None:
        assert await self.probe.call(send(**arguments)) == Pass()

    async def test_a_person_is_asked_if_the_settings_say_so(self) -> None:
        probe = GuardrailProbe(SecretsGuardrail(SecretsSettings(action="ask")))
        assert isinstance(await probe.call(send(body=TOKEN)), Ask)


class TestDomains:
    @pytest.mark.parametrize(
        "address",
        [
            "https://evil.example/x",
            "https://good.example@evil.example/x",
            "https://evil.example\\@good.example/x",
            "https:evil.example",
            "https:///evil.example/x",
            "ht\ntps://ev\til.example/x",
            "https://evil\u3002example/x",
            "https://ev\u00adil.example/x",
            "https://%65vil.example/x",
            "//evil.example/x",
            "https://good.example/?next=https%3A%2F%2Fevil.example",
            "https://good.example/?next=https%253A%252F%252Fevil.example",
            "ftp://evil.example/x",
            "see [this](https://evil.example) or https://good.example",
            "https://" + "a" * 3_000 + "@evil.example/",
            "(https://evil.example),(https://good.example)",
            "https://evil.example#@good.example",
            'https://good.example"@evil.example/x',
            'https://"@evil.example/',
            "https://good.example\u00a0@evil.example/x",
            "https://good.example/?next=https://good.example%20@evil.example/x",
            "https://good.example " + " " * 3_000 + "@evil.example/",
            "///evil.example/x",
        ],
    )
    async def test_another_host_is_blocked_in_any_spelling(self, address: str) -> None:
        only_good, not_evil = domains(allow=["good.example"]), domains(deny=["evil.example"])
        for arguments in ({"url": address}, {"rows": [{"a": [address]}]}, {"map": {address: 1}}):
            assert isinstance(await only_good.call(send(**arguments)), Block), "by what is allowed"
            assert isinstance(await not_evil.call(send(**arguments)), Block), "by what is denied"

    @pytest.mark.parametrize(
        "text",
        [
            "https://good.example/path?q=1#part",
            "HTTP://Good.Example.:8080/",
            "https://ada@good.example/",
            "no address: evil.example, and 1//2, and http: alone",
            "[this](https://good.example), or (https://good.example/a).",
            "ratio 3:4, time 12:30, key:value",
            "see https://good.example or mail ada@other.example",
            "https://good.example is ours, ada@other.example is not",
            '{"url": "https://good.example", "mail": "ada@other.example"}',
            'https://good.example"@good.example/x',
            "/// a comment.",
            "///good.example/x and ///etc/passwd.txt",
        ],
    )
    async def test_an_allowed_host_and_what_is_no_address_pass(self, text: str) -> None:
        assert await domains(allow=["good.example"]).call(send(body=text)) == Pass()

    @pytest.mark.parametrize("spelling", ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1"])
    async def test_a_numeric_host_is_one_address_in_any_spelling(self, spelling: str) -> None:
        probe = domains(deny=["127.0.0.1"])
        assert isinstance(await probe.call(send(url=f"http://{spelling}/")), Block)
        assert await probe.call(send(url="http://127.0.0.2/")) == Pass(), "control"

    @pytest.mark.parametrize(
        "spelling", ["[::ffff:127.0.0.1]", "[::FFFF:7f00:1]", "[64:ff9b::7f00:1]", "[0::ffff:7f00:1]:80"]
    )
    async def test_an_ipv4_address_within_an_ipv6_address_is_the_same_host(self, spelling: str) -> None:
        for probe in (domains(deny=["127.0.0.1"]), domains(deny=["::ffff:127.0.0.1"])):
            assert isinstance(await probe.call(send(url=f"http://{spelling}/")), Block)
            assert await probe.call(send(url="http://[::ffff:127.0.0.2]/")) == Pass(), "control"

    async def test_a_host_that_readers_send_in_two_ways_is_blocked(self) -> None:
        for probe in (domains(allow=["*"]), domains(deny=["a.example"])):
            assert isinstance(await probe.call(send(url="https://stra\u00dfe.example/")), Block)
            assert await probe.call(send(url="https://strasse.example/")) == Pass(), "control"

    async def test_an_internationalised_host_is_the_same_in_either_form(self) -> None:
        probe = domains(deny=["b\u00fccher.example"])
        assert isinstance(await probe.call(send(url="https://xn--bcher-kva.example/")), Block)
        assert isinstance(await probe.call(send(url="https://B\u00dcCHER.example/")), Block)
        assert await probe.call(send(url="https://bucher.example/")) == Pass(), "control"

    async def test_hosts_below_a_domain_are_meant_by_a_star_alone(self) -> None:
        probe = domains(allow=["*.good.example"])
        assert await probe.call(send(url="https://api.good.example")) == Pass()
        assert isinstance(await probe.call(send(url="https://good.example")), Block)
        assert isinstance(await probe.call(send(url="https://good.example.evil.example")), Block)

    @pytest.mark.parametrize("settings", [{}, {"allow": ["https://good.example"]}, {"alow": ["a.example"]}])
    async def test_settings_that_would_protect_nothing_are_refused(self, settings: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="validation error"):
            DomainsSettings(**settings)


@pytest.mark.parametrize("guardrail", [DomainsGuardrail(DomainsSettings(allow=("a.example",))), TestSecrets.probe])
async def test_a_text_of_escapes_is_blocked_before_it_takes_long(guardrail: Any) -> None:
    probe = guardrail if isinstance(guardrail, GuardrailProbe) else GuardrailProbe(guardrail)
    assert isinstance(await probe.call(send(body="%25" * (MAX_ESCAPES + 1))), Block)
    assert await probe.call(send(body="%25" * 1_000)) == Pass(), "control"


class TestSize:
    @pytest.mark.parametrize(
        ("settings", "arguments"),
        [
            ({"argument_bytes": 50}, {"body": "x" * 60}),
            ({"text_characters": 10}, {"rows": [{"a": "x" * 11}]}),
            ({"text_characters": 10}, {"rows": {"x" * 11: 1}}),
            ({"items": 2}, {"to": {"all": [1, 2, 3]}}),
        ],
    )
    async def test_what_is_larger_than_a_bound_is_blocked(
        self, settings: dict[str, int], arguments: dict[str, Any]
    ) -> None:
        probe = GuardrailProbe(SizeGuardrail(SizeSettings(**settings)))
        assert isinstance(await probe.call(send(**arguments)), Block)
        assert await probe.call(send(to=["a"])) == Pass(), "control"

    async def test_an_answer_larger_than_its_bound_is_blocked(self) -> None:
        probe = GuardrailProbe(SizeGuardrail(SizeSettings(result_bytes=10)))
        assert isinstance(await probe.answer(guarded_call("web/get"), "x" * 11), Block)
        assert await probe.answer(guarded_call("web/get"), "x") == Pass(), "control"
