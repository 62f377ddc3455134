"""Secrets are replaced wherever they stand; shapes tell types and sizes and never a value."""

from __future__ import annotations

import html
import json
import re
from typing import Any, ClassVar
from urllib.parse import quote, quote_plus

import pytest

from codemode_server.support.redaction import MAX_PAYLOAD_BYTES, Redactor, payload, recorded_text, shape

SECRET = 'ghp_"quoted"\\token'
PEM = "-----BEGIN KEY-----\n" + "\n".join(f"{n}abc/DEF+{n}ghi" * 4 for n in range(20)) + "\n-----END KEY-----"


class TestASecret:
    redactor = Redactor([SECRET, "12345678"])

    def test_is_replaced_in_keys_and_values_at_any_depth(self) -> None:
        assert self.redactor.value({"a": [{SECRET: f"x{SECRET}"}]}) == {"a": [{"***": "x***"}]}

    def test_of_digits_is_replaced_where_it_comes_back_as_a_number_and_leaves_longer_numbers_alone(self) -> None:
        assert self.redactor.value({"pin": 12345678, "id": 9123456780}) == {"pin": "***", "id": 9123456780}

    def test_that_contains_another_is_replaced_whole(self) -> None:
        assert Redactor(["abcdef", "abcdefghij"]).text("abcdefghij") == "***"


ODD = "pä\"ss\\w/ör'd&<é😀>~x! y"
SPELLINGS = {
    "as it is": ODD,
    "JSON of Python": json.dumps(ODD),
    "JSON of JavaScript": json.dumps(ODD, ensure_ascii=False),
    "JSON of PHP": json.dumps(ODD).replace("/", "\\/"),
    "JSON of Go": json.dumps(ODD, ensure_ascii=False)
    .replace("&", "\\u0026")
    .replace("<", "\\u003c")
    .replace(">", "\\u003e"),
    "JSON in JSON": json.dumps(json.dumps(ODD)),
    "JSON of JavaScript in JSON": json.dumps(json.dumps(ODD, ensure_ascii=False), ensure_ascii=False),
    "URL path": quote(ODD),
    "URL component": quote(ODD, safe=""),
    "encodeURIComponent": quote(ODD, safe="!*'()"),
    "form": quote_plus(ODD, safe=""),
    "percent in lower case": re.sub("%..", lambda found: found[0].lower(), quote(ODD)),
    "HTML": html.escape(ODD),
    "XML text": html.escape(ODD, quote=False),
    "HTML of Go": html.escape(ODD).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
}


class TestASecretInAnySpelling:
    redactor = Redactor([ODD])

    @pytest.mark.parametrize("spelling", SPELLINGS)
    def test_is_replaced_whole_and_what_differs_by_one_character_stays(self, spelling: str) -> None:
        text = f"before {SPELLINGS[spelling]} after"
        assert re.fullmatch(r"""before ["'\\]*\*\*\*["'\\]* after""", self.redactor.text(text))
        other = re.sub(r"x(!|%21)", r"y\1", text)
        assert other != text
        assert self.redactor.text(other) == other, "control"

    def test_is_replaced_within_a_text_that_is_json_in_a_value(self) -> None:
        assert self.redactor.value([{"body": json.dumps({"key": ODD})}]) == [{"body": '{"key": "***"}'}]

    def test_is_found_wherever_it_is_in_a_long_text_that_looks_like_it(self) -> None:
        text = "key-0123456789-key " * 2_000 + "x" * 1_100_000 + "0123456789" + "key-0123456789-kez " * 60_000
        assert Redactor(["key-0123456789-key"]).text(text) == text.replace("key-0123456789-key", "***")

    def test_that_overlaps_another_leaves_nothing_of_either(self) -> None:
        assert Redactor(["abcdefgh", "ghijklmn"]).text("_abcdefghijklmn_") == "_***_"

    def test_that_is_there_too_often_masks_the_whole_text(self) -> None:
        assert Redactor(["hunter22"]).text("hunter22 " * 100_001) == "***"


class TestATextThatIsCut:
    """Nothing of a secret is left of it, wherever the cut is."""

    redactor = Redactor([SECRET, ODD, PEM])

    @pytest.mark.parametrize("before", range(0, 60, 3))
    @pytest.mark.parametrize("secret", [SECRET, ODD, json.dumps(ODD)])
    def test_cut_at_its_end_has_no_part_of_a_secret(self, secret: str, before: int) -> None:
        for text in (
            self.redactor.head(f"{'x' * before}{secret} y", 40),
            self.redactor.line("x" * before + secret, 40),
        ):
            assert set(text) <= set('xy *…"')
        assert self.redactor.head("x" * before + "y" * 60, 40) == ("x" * before + "y" * 60)[:40], "control"

    @pytest.mark.parametrize("after", range(0, 120, 7))
    @pytest.mark.parametrize("is_cut", [False, True])
    def test_cut_at_its_beginning_has_no_part_of_a_secret(self, after: int, *, is_cut: bool) -> None:
        data = f"{'y' * 5_000}{ODD}{'x' * after}".encode()
        kept = data[-self.redactor.tail_bytes(60) :] if is_cut else data
        assert set(self.redactor.tail(kept, 60, is_cut=is_cut)) <= set("xy*")

    def test_has_no_part_of_a_secret_whose_beginning_was_dropped(self) -> None:
        data = (PEM + "x" * 10).encode()
        most = self.redactor.tail_bytes(60)
        lost = (b"y" * most + data)[-most:]
        for kept in (lost, data[30:] + b"z" * (most - len(data) + 30)):
            shown = self.redactor.tail(kept, 60, is_cut=True)
            assert not any(line in shown for line in PEM.splitlines())


class CountingDict(dict[str, object]):
    """Counts how many of its items are read."""

    looked_at: ClassVar[list[int]] = [0]

    def items(self) -> Any:
        for item in super().items():
            self.looked_at[0] += 1
            yield item


class TestAShape:
    def test_has_types_keys_and_lengths(self) -> None:
        value = {"rows": [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}], "next": None, "ok": True}
        assert shape(value) == {"rows": ["2 x", {"id": "int", "name": "str of 3"}], "next": "None", "ok": "bool"}

    def test_names_fields_and_no_keys_that_are_values(self) -> None:
        told = shape({"name": "Ann", "ann@example.com": 1, "2026-01-31": 2, "/home/ann": 3, "a1b2c3d4e5f6": 4})
        assert told == {"name": "str of 3", "…": "4 more keys"}

    @pytest.mark.parametrize("letter", ["f", "ä", "\U00020000"])
    def test_of_many_keys_at_many_levels_fits_the_record_and_says_what_it_leaves_out(self, letter: str) -> None:
        looked_at = CountingDict.looked_at = [0]
        value: object = 1
        for _ in range(6):
            value = CountingDict({(letter * 40) + f"_{chr(97 + n // 9)}{n % 9}": value for n in range(40)})
        text = payload(value, "shapes", Redactor())
        assert text is not None
        assert len(text.encode()) <= MAX_PAYLOAD_BYTES
        assert "more keys" in text
        assert json.loads(text), "it is still JSON"
        assert looked_at[0] < 2_000, "of 40 to the power of 6"

    def test_names_no_secret(self) -> None:
        kept = payload({"key_hunter22": 1, "b": 2}, "shapes", Redactor(["hunter22"]))
        assert kept == '{"key_***": "int", "b": "int"}'


class TestAKeptPayload:
    def test_is_redacted_and_bounded_if_all_is_kept(self) -> None:
        kept = payload({"a": "hunter22" + "x" * 100_000}, "all", Redactor(["hunter22"]))
        assert kept is not None
        assert "hunter22" not in kept
        assert len(kept.encode()) <= MAX_PAYLOAD_BYTES

    @pytest.mark.parametrize("filling", ["x", '"', "\\", "\0", "ä", "\U0001f600", "\ud800"])
    def test_that_is_cut_is_still_json_and_says_so(self, filling: str) -> None:
        kept = payload({"a": filling * 30_000}, "all", Redactor())
        assert kept is not None
        assert len(kept.encode()) <= MAX_PAYLOAD_BYTES
        told = json.loads(kept)
        assert told["begins"].startswith('{"a": "')
        assert "characters of JSON" in told["…"]


class TestAKeptText:
    def test_is_masked_before_it_is_cut(self) -> None:
        assert recorded_text("a hunter22", Redactor(["hunter22"]), 6) == "a ***"
        assert recorded_text("hunter22 " * 10, Redactor(["hunter22"]), 6) == "*** **… (40 characters in all)"
