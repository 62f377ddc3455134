"""Which values that a call has sent are found in its answer, in which forms, and at what cost."""

from __future__ import annotations

import base64
import html
import json
from typing import Any
from urllib.parse import quote

import pytest

from codemode_server.privacy.echoes import tokenized_echo
from codemode_server.privacy.originals import Originals
from tests.work import lines_run

SENT = {
    "<EMAIL_1>": "Annabel.Leary@corp.example",
    "<NAME_1>": "Annabel Leary",
    "<NAME_2>": "Ann Lee",
    "<NAME_3>": "Annabel O'Leary",
    "<NAME_4>": "Li Wu",
    "<PHONE_1>": "+49 30 901820",
    "<IBAN_1>": "DE89370400440532013000",
    "<NATIONAL_ID_1>": "12-3456",
}
RECEIPT = "Sent to annabel.leary@corp.example, Annabel O'Leary."
SHOWN = "Sent to <EMAIL_1>, <NAME_3>."


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("annabel.leary@corp.example", "<EMAIL_1>"),
        ("Sent to Annabel Leary <ANNABEL.LEARY@corp.example>.", "Sent to <NAME_1> <<EMAIL_1>>."),
        ("annabel_leary, annabel-leary and LEARY", "<NAME_1>, <NAME_1> and LEARY"),
        ("+4930901820 or +49 (30) 90-18-20", "<PHONE_1> or <PHONE_1>"),
        ("DE89 3704 0044 0532 0130 00", "<IBAN_1>"),
        ("Ann Lee, Ann Leeds, Joann Lee, ann lee", "<NAME_2>, Ann Leeds, Joann Lee, <NAME_2>"),
        ("li.wu, Li-Wu, liwu, LI WU and Li Wun", "<NAME_4>, <NAME_4>, <NAME_4>, <NAME_4> and Li Wun"),
        ("annabel.leary", "<NAME_1>"),
        ("elpmaxe.proc@yrael.lebanna", "<EMAIL_1>"),
        ("123456, 12 3456, 1234567", "<NATIONAL_ID_1>, <NATIONAL_ID_1>, 1234567"),
        ("\u0130 Ann Lee", "\u0130 <NAME_2>"),
        ("ann@corp.example", "ann@corp.example"),
        ("Annabel, of Leary Street", "Annabel, of Leary Street"),
        ("", ""),
    ],
)
def test_a_value_is_found_in_any_case_and_with_any_separators_between_words(text: str, expected: str) -> None:
    assert tokenized_echo(text, SENT) == expected
    assert tokenized_echo(["a", text, text, 7], SENT) == ["a", expected, expected, 7]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"https://x.example/?to={quote(RECEIPT)}", "https://x.example/?to=Sent%20to%20<EMAIL_1>%2C%20<NAME_3>."),
        (f"<p>{html.escape(RECEIPT)}</p>", f"<p>{SHOWN}</p>"),
        (in_base64(RECEIPT), in_base64(SHOWN)),
        (f"data:text/plain;base64,{in_base64(RECEIPT)} here", f"data:text/plain;base64,{in_base64(SHOWN)} here"),
        (json.dumps({"a": [RECEIPT], "Ann Lee": 1}), json.dumps({"a": [SHOWN], "<NAME_2>": 1})),
        (json.dumps({"a": in_base64(json.dumps([RECEIPT]))}), json.dumps({"a": in_base64(json.dumps([SHOWN]))})),
    ],
)
def test_a_value_is_found_in_a_link_in_html_and_in_texts_that_are_base64_or_json(text: str, expected: str) -> None:
    assert tokenized_echo({"it": text}, SENT) == {"it": expected}


def test_other_texts_that_are_base64_or_json_stay_as_they_are() -> None:
    value = [in_base64("nothing of that"), '{"a":1,  "b": [2]}', f"data:text/plain;base64,{in_base64('nothing here')}"]
    assert tokenized_echo([*value, "Ann Lee"], SENT) == [*value, "<NAME_2>"]


def test_a_text_with_parts_in_base64_is_found_at_several_depths() -> None:
    text, shown = (f"data:text/plain;base64,{in_base64(it)} for {it[8:]}" for it in (RECEIPT, SHOWN))
    value = [text, json.dumps([text]), in_base64(text)]
    assert tokenized_echo(value, SENT) == [shown, json.dumps([shown]), in_base64(shown)]


def test_texts_within_texts_are_searched_as_texts_where_they_are_nested_too_deep() -> None:
    value = RECEIPT
    for _ in range(12):
        value = in_base64(value)
    wrapped = json.dumps([json.dumps({"a": "Ann Lee"})])
    for _ in range(8):
        wrapped = json.dumps([wrapped])
    shown = tokenized_echo([value, wrapped, *([wrapped] * 3)], SENT)
    assert shown[0] == value
    assert all("Ann Lee" not in it and "<NAME_2>" in it for it in shown[1:])


@pytest.mark.parametrize("depth", [15, 150])
def test_json_in_a_text_may_be_nested_deep(depth: int) -> None:
    assert "Ann Lee" not in tokenized_echo("[" * depth + '"Ann Lee"' + "]" * depth, SENT)


def test_mailboxes_that_differ_in_a_letter_are_others() -> None:
    sent = {"<EMAIL_1>": "ann@fa\u00df.de"}
    assert tokenized_echo("ann@fass.de ann@fa\u00df.de", sent) == "ann@fass.de <EMAIL_1>"
    both = {**sent, "<EMAIL_2>": "ann@fass.de"}
    assert tokenized_echo("ann@fass.de ann@fa\u00df.de", both) == "<EMAIL_2> <EMAIL_1>"


def test_keys_and_numbers_are_searched_too() -> None:
    value = {"Ann Lee": [4930901820, -4930901820, 4930901820.0, 7, None, True], "n": {"Ann Leeds": "x"}}
    assert tokenized_echo(value, {**SENT, "<PHONE_1>": "4930901820"}) == {
        "<NAME_2>": ["<PHONE_1>", "<PHONE_1>", "<PHONE_1>", 7, None, True],
        "n": {"Ann Leeds": "x"},
    }


def test_a_short_value_stays() -> None:
    assert tokenized_echo("Al and 7", {"<NAME_1>": "Al", "<ID_1>": "7"}) == "Al and 7"


def test_a_value_in_several_texts_stays_since_none_of_them_stands_for_the_whole() -> None:
    value = {"first": "Annabel", "last": "Leary", "phone": [49, 30, 901820], "sizes": {"a": 4930, "b": 901820}}
    assert tokenized_echo(value, {**SENT, "<PHONE_2>": "4930901820"}) == value
    assert tokenized_echo([*value.values(), "Annabel Leary"], SENT)[-1] == "<NAME_1>", "the control"


class TestAValueOfOrdinaryWords:
    ANSWER = {  # noqa: RUF012 - no test changes it
        "status": "ok",
        "Status": "ok",
        "message_id": 7,
        "will": "open",
        "text": "It will be marked. Will it? The message id is 7; Status: ok",
    }

    @pytest.mark.parametrize("name", ["Status", "Message Id", "Will", "status", "message id", "Open"])
    def test_is_no_key_and_no_word_of_a_text(self, name: str) -> None:
        assert tokenized_echo(self.ANSWER, {"<NAME_1>": name}) == self.ANSWER

    @pytest.mark.parametrize("name", ["Status", "Message Id", "Will", "status"])
    def test_is_found_as_a_whole_text_that_is_written_so(self, name: str) -> None:
        assert tokenized_echo({**self.ANSWER, "name": name}, {"<NAME_1>": name}) == {**self.ANSWER, "name": "<NAME_1>"}

    def test_is_found_in_texts_and_keys_if_a_given_name_begins_several(self) -> None:
        shown = tokenized_echo({"mark_hill": "to Mark Hill, mark hill"}, {"<NAME_1>": "Mark Hill"})
        assert shown == {"<NAME_1>": "to <NAME_1>, <NAME_1>"}

    def test_is_found_in_a_key_that_is_the_whole_name_as_it_is_written(self) -> None:
        sent = {"<NAME_1>": "Mark", "<NAME_2>": "Open Door"}
        shown = tokenized_echo({"Mark": 1, "Open Door": 2, "open_door": 3, "mark": 4}, sent)
        assert shown == {"<NAME_1>": 1, "<NAME_2>": 2, "open_door": 3, "mark": 4}

    @pytest.mark.parametrize("text", [in_base64("Status"), in_base64("Status").rstrip("="), b"Status".hex()])
    def test_is_found_as_a_whole_text_in_an_encoding(self, text: str) -> None:
        assert tokenized_echo([f" {text}\n"], {"<NAME_1>": "Status"}) == [" <NAME_1>\n"]

    @pytest.mark.parametrize("name", ["Will", "Mark"])
    @pytest.mark.parametrize("form", ["{}", "id: {};", "eyJhbGciOiJIUzI1NiJ9.{}.c2ln"])
    def test_does_not_change_base64_that_has_the_word(self, name: str, form: str) -> None:
        text = form.format(in_base64(f'"{name} it rain? mark each page", "{name.lower()}"'))
        assert tokenized_echo(text, {"<NAME_1>": name}) == text
        other = form.format(in_base64('"Annabel it rain?"'))
        assert tokenized_echo(other, {"<NAME_1>": name, "<NAME_2>": "Annabel"}) != other, "a name that is no word"

    @pytest.mark.parametrize("text", ["Will,Anax", "Anax,Will", "Will Anax"])
    def test_hides_no_other_value_beside_it_in_base64(self, text: str) -> None:
        text = f"id: {in_base64(text)};"
        assert tokenized_echo(text, {"<NAME_1>": "Will", "<NAME_2>": "Anax"}) != text


def alike(count: int) -> dict[str, str]:
    """Values of different lengths that begin alike."""
    return {f"<CREDENTIAL_{size}>": "-".join("a" * (size + 3)) + "-b" for size in range(1, count + 1)}


class TestTheCost:
    def test_of_many_values_that_begin_alike_is_hardly_higher_than_of_one(self) -> None:
        text = "a " * 20_000
        tokenized_echo(text, alike(2))
        one, many = ({**alike(count), **SENT} for count in (1, 97))
        build = lines_run(lambda: tokenized_echo("nothing", many)) - lines_run(lambda: tokenized_echo("nothing", one))
        costs = [lines_run(lambda sent=sent: tokenized_echo(text, sent)) for sent in (one, many)]  # type: ignore[misc]
        assert costs[1] - build <= 4 * costs[0]

    def test_leaves_no_value_where_a_search_has_no_time_to_examine_all(self) -> None:
        sent = alike(97)
        left = "\n".join(tokenized_echo(["a-" * 20_000 + "b", *sent.values()], sent))
        assert not any(it in left for it in sent.values())
        few = alike(5)
        assert tokenized_echo([*few.values(), "a-a-a-a-a"], few) == [*few, "a-a-a-a-a"], "the control"

    def test_has_an_end_after_which_texts_are_replaced_unsearched(self) -> None:
        originals = Originals(only_wholes=True)
        for token, value in alike(97).items():
            originals.add(value, token)
        text = "a " * 20_000
        searched, other = lines_run(lambda: originals.spans(text)), originals.spans("nothing of that")
        originals.spans(text)
        assert lines_run(lambda: originals.spans(text)) < searched / 1_000
        assert originals.spans(text) == [(0, len(text), "<part of CREDENTIAL_1>")]
        assert other == [], "the control"

    def test_of_texts_that_are_json_is_bounded_and_their_values_are_found_all_the_same(self) -> None:
        shown = tokenized_echo([json.dumps({"it": f"{number} Ann Lee"}) for number in range(25_000)], SENT)
        assert [json.loads(it) for it in shown] == [{"it": f"{number} <NAME_2>"} for number in range(25_000)]

    def test_of_a_text_with_many_parts_in_base64_rises_with_its_size_only(self) -> None:
        part = f"data:text/plain;base64,{in_base64('for Ann Lee')} "
        shown = f"data:text/plain;base64,{in_base64('for <NAME_2>')} "
        assert tokenized_echo(part * 10, SENT) == shown * 10
        few, many = (lines_run(lambda n=n: tokenized_echo(part * n, SENT)) for n in (200, 1_000))  # type: ignore[misc]
        assert many <= 6 * few

    def test_of_an_answer_rises_with_its_size_only(self) -> None:
        sent = {f"<EMAIL_{number}>": f"person{number * 7919}@host{number}.example.org" for number in range(300)}
        costs = [
            lines_run(lambda rows=rows: tokenized_echo(rows, sent))  # type: ignore[misc]
            for rows in ([{"to": it} for it in sent.values()], [{"to": it} for it in [*sent.values()] * 4])
        ]
        assert costs[1] <= 4 * costs[0]


def test_all_of_a_thousand_values_are_found_in_one_answer() -> None:
    sent = {f"<EMAIL_{number}>": f"person{number * 7919}@example.org" for number in range(1_000)}
    rows: list[Any] = [{"id": f"m{number}", "to": f"<{it}>"} for number, it in enumerate(sent.values())]
    assert tokenized_echo(rows, sent) == [{"id": f"m{at}", "to": f"<{it}>"} for at, it in enumerate(sent)]
