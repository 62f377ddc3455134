"""Known originals are found disguised and in parts. `docs/privacy.md` has the list of what counts."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest

from codemode_server.domain.privacy_tokens import part_of, whole_of
from codemode_server.privacy.originals import Originals

EMAIL, KEY, NAME, CARD, STREET, PHONE = "<EMAIL_1>", "<KEY_1>", "<NAME_1>", "<CARD_1>", "<ADDRESS_1>", "<PHONE_1>"
ORIGINALS = {
    EMAIL: "stephen.lövelace@example.org",
    KEY: "gX7-kQ2pZ9wTr4Lm",
    NAME: "Zoë Whitmarsh",
    CARD: "5118 9050 3319 8951",
    STREET: "14 Pemberly Road",
    PHONE: "+49 30 901820",
}


def mathematical(text: str) -> str:
    """Each takes four bytes in UTF-8, and two escapes in JSON."""
    return "".join(chr(0x1D41A + ord(one) - ord("a")) if "a" <= one <= "z" else one for one in text)


DISGUISES: dict[str, Callable[[str], str]] = {
    "as it is": lambda it: it,
    "in capital letters": lambda it: it.upper(),
    "in small letters": lambda it: it.lower(),
    "without accents": lambda it: it.replace("ö", "o").replace("ë", "e"),
    "in wide letters": lambda it: "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in it),
    "in letters that look alike": lambda it: it.translate(str.maketrans("aeopc", "аеорс")),
    "without separators": lambda it: "".join(filter(str.isalnum, it)),
    "with dots between": lambda it: ".".join(it),
    "with zero-width characters between": lambda it: "\u200b".join(it),
    "one character a line": lambda it: "\n".join(it),
    "as a list": lambda it: json.dumps(list(it), indent=2),
    "as a repr of a list": lambda it: repr(list(it)),
    "backwards": lambda it: it[::-1],
    "backwards, with spaces between": lambda it: " ".join(it[::-1]),
    "percent-encoded": quote,
    "percent-encoded throughout": lambda it: "".join(f"%{one:02x}" for one in it.encode()),
    "percent-encoded twice": lambda it: quote("".join(f"%{one:02x}" for one in it.encode())),
    "in entities": lambda it: "".join(f"&#{ord(one)};" for one in it),
    "in hexadecimal entities": lambda it: "".join(f"&#x{ord(one):x};" for one in it),
    "as HTML": lambda it: html.escape(f"<p>{it}"),
    "as JSON": lambda it: json.dumps(f"\n{it}\n"),
    "as JSON within JSON": lambda it: json.dumps(json.dumps(f"\n{it}\n")),
    "in escapes of code points": lambda it: "".join(f"\\u{ord(one):04x}" for one in it),
    "in escapes of bytes": lambda it: "".join(f"\\x{one:02x}" for one in it.encode()),
    "as bytes": lambda it: repr(it.encode()),
    "in octal escapes": lambda it: "".join(f"\\{one:03o}" for one in it.encode()),
    "in mathematical letters": mathematical,
    "in mathematical letters, as JSON": lambda it: json.dumps(mathematical(it)),
    "in mathematical letters, as JSON within JSON": lambda it: json.dumps(json.dumps(mathematical(it))),
    "in mathematical letters, percent-encoded": lambda it: quote(mathematical(it)),
    "in mathematical letters, as bytes": lambda it: repr(mathematical(it).encode()),
    "in mathematical letters, in octal escapes": lambda it: "".join(f"\\{one:o}" for one in mathematical(it).encode()),
    "in mathematical letters, in base64": lambda it: base64.b64encode(mathematical(it).encode()).decode(),
    "in mathematical letters, in hexadecimal digits": lambda it: mathematical(it).encode().hex(),
    "in base64": lambda it: base64.b64encode(it.encode()).decode(),
    "in base64 after one more byte": lambda it: base64.b64encode(f"(){it} and more".encode()).decode(),
    "in base64 after two more bytes": lambda it: base64.b64encode(f"a; {it}".encode()).decode(),
    "in base64 backwards": lambda it: base64.b64encode(it[::-1].encode()).decode(),
    "in base64 for URLs": lambda it: base64.urlsafe_b64encode(f"ÿ>? {it}".encode()).decode(),
    "in base64 after a name": lambda it: f"token/x{base64.b64encode(it.encode()).decode()}",
    "in hexadecimal digits": lambda it: it.encode().hex(),
    "in capital hexadecimal digits": lambda it: it.encode().hex().upper(),
    "in separated hexadecimal digits": lambda it: it.encode().hex(":"),
    "in hexadecimal numbers": lambda it: ", ".join(map(hex, it.encode())),
    "in hexadecimal digits of odd number": lambda it: f"f{it.encode().hex()}",
}


def known() -> Originals:
    originals = Originals()
    for token, original in ORIGINALS.items():
        originals.add(original, token)
    return originals


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("token", ORIGINALS)
def test_an_original_is_found(token: str, disguise: str) -> None:
    text = DISGUISES[disguise](ORIGINALS[token])
    assert [whole_of(it[2]) for it in known().spans(f"It is {text}.")] == [token]


@pytest.mark.parametrize("disguise", DISGUISES)
def test_another_value_is_not_found(disguise: str) -> None:
    """The control."""
    text = DISGUISES[disguise]("wilhelmine.adler@beispiel.de")
    assert known().spans(f"It is {text}.") == []


class TestAPart:
    @pytest.mark.parametrize(
        ("part", "token"),
        [
            ("stephen.love", EMAIL),
            ("lovela", EMAIL),
            ("ecalevol", EMAIL),
            ("l o v e l a", EMAIL),
            ("n.lovel", EMAIL),
            ("stephe", EMAIL),
            (".lovel", EMAIL),
            ("lovelace@exa", EMAIL),
            ("vegetable_xlovelace@exam", EMAIL),
            (base64.b64encode(b"lovela").decode(), EMAIL),
            (b"lovela".hex(), EMAIL),
            ("kQ2pZ9", KEY),
            ("Whitma", NAME),
            ("whitmarsh", NAME),
            ("9050 3319", CARD),
            ("90503319", CARD),
            ("xx118905033198xx", CARD),
            ("14 Pemberl", STREET),
        ],
    )
    def test_is_found(self, part: str, token: str) -> None:
        assert [it[2] for it in known().spans(f"It is {part}, yes")] == [part_of(token)]

    @pytest.mark.parametrize(
        "text",
        [
            "love",
            "example.org",
            "@example.org",
            "Stephen",
            "xlovelax",
            "118905",
            "14 Road",
            "Road",
            "30 901",
            "xWhitmax",
        ],
    )
    def test_is_not_found_if_it_is_short_or_ordinary_or_within_a_word(self, text: str) -> None:
        assert known().spans(f"It is {text}, yes") == []

    def test_of_many_originals_tells_nothing(self) -> None:
        originals = Originals()
        for number in range(9):
            originals.add(f"{number}{number}.brontok@b.org", f"<EMAIL_{number}>")
        assert originals.spans("brontok") == []
        assert originals.spans("11-BRONTOK@b.org") == [(0, 16, "<EMAIL_1>")]

    @pytest.mark.parametrize(
        "original", ["1984-03-12", "12.3.1984", "12 March 1984", "192.168.1.203", "2001:db8::1:203"]
    )
    def test_of_a_date_or_an_address_of_a_machine_tells_nothing(self, original: str) -> None:
        originals = Originals()
        originals.add(original, "<DATE_1>")
        assert originals.spans(f"on {original}.") == [(3, 3 + len(original), "<DATE_1>")]
        assert originals.spans("198403 1984 March 1921681 192.168.1 2001db8 2001:db8") == []


class TestAPlace:
    def test_is_that_of_the_encoded_text(self) -> None:
        encoded = base64.b64encode(b"to jane.lovelace@example.org now").decode()
        originals = Originals()
        originals.add("jane.lovelace@example.org", EMAIL)
        ((start, end, _),) = originals.spans(f"see {encoded}")
        assert base64.b64decode(encoded[: (start - 4) // 4 * 4]) == b"to "
        assert "jane" not in base64.b64decode(encoded[: start - 4 + (4 - start) % 4] + "==").decode("latin-1")
        assert end <= 4 + len(encoded)

    def test_of_a_whole_original_covers_its_separators(self) -> None:
        assert known().spans("(+49 30 901820)") == [(1, 14, PHONE)]

    def test_in_a_long_text_is_right(self) -> None:
        filler = "All is well. " * 60_000
        text = f"{filler}{ORIGINALS[KEY]}{filler}"
        assert known().spans(text) == [(len(filler), len(filler) + len(ORIGINALS[KEY]), KEY)]

    @pytest.mark.parametrize("shift", range(0, 64, 7))
    def test_at_the_border_of_two_pieces_is_right(self, shift: int) -> None:
        """Long texts are searched in pieces of 256 Ki characters."""
        filler = "." * ((1 << 18) + (1 << 13) - 40 + shift)
        text = f"{filler} {ORIGINALS[KEY]} {filler}"
        assert known().spans(text) == [(len(filler) + 1, len(filler) + 1 + len(ORIGINALS[KEY]), KEY)]


class TestForgetting:
    def test_takes_the_original_and_its_parts_out(self) -> None:
        originals = known()
        originals.discard(KEY)
        assert originals.spans(f"{ORIGINALS[KEY]} kQ2pZ9") == []
        assert [it[2] for it in originals.spans(ORIGINALS[CARD])] == [CARD], "the control"

    def test_most_of_them_leaves_the_rest_findable(self) -> None:
        originals = Originals()
        for number in range(200):
            originals.add(f"p{number:03}.lovelace@example.org", f"<EMAIL_{number}>")
        for number in range(1, 200):
            originals.discard(f"<EMAIL_{number}>")
        assert originals.spans("p000-lovelace-example-org p001.lovelace@example.org")[0][2] == "<EMAIL_0>"
        assert originals.spans("lovelace") == [(0, 8, "<part of EMAIL_0>")], "no longer shared by many"

    def test_some_of_many_with_the_same_letters_leaves_the_others_findable(self) -> None:
        """They are more than are compared at one window."""
        originals = Originals()
        values = [f"{'brontok'[:at]}{sign}{'brontok'[at:]}" for sign in "!?+-*/=~^:;,.|%&$#" for at in range(1, 7)]
        values += [f"{sign}{it}" for sign in "!?" for it in values[:30]]
        values.append("b-ro-ntok")
        for number, value in enumerate(values):
            originals.add(value, f"<KEY_{number}>")
        for number in range(80):
            originals.discard(f"<KEY_{number}>")
        ((start, end, _),) = originals.spans("It is b-ro-ntok.")
        assert (start, end) == (6, 15)

    def test_some_of_many_makes_a_part_of_what_the_others_share_once_they_are_eight(self) -> None:
        originals = known()
        for number in range(60):
            originals.add(f"{number:02}@example.org", f"<OTHER_{number}>")
        for number in range(13):
            originals.add(f"{number:02}.brontok@b.org", f"<EMAIL_{number + 10}>")
        for number in range(4):
            originals.discard(f"<EMAIL_{number + 10}>")
        assert originals.spans("brontok") == [], "nine have it"
        for number in range(4, 12):
            originals.discard(f"<EMAIL_{number + 10}>")
            ((start, end, token),) = originals.spans("brontok")
            assert (start, end) == (0, 7)
            assert int(whole_of(token)[7:-1]) > number + 10, "not one that is forgotten"


class TestManyOriginalsWithOneWindow:
    def test_are_all_replaced(self) -> None:
        """Otherwise a server could make a search slow, or hide one value behind others."""
        originals = Originals()
        for number in range(6, 206):
            originals.add("z" * number, f"<KEY_{number}>")
        ((start, end, _),) = originals.spans(f"It is {'z' * 150}.")
        assert (start, end) == (6, 156)

    def test_that_are_short_are_all_found(self) -> None:
        originals = Originals()
        values = [f"10.{one}.{two}" for one in range(10) for two in range(10)]
        for number, value in enumerate(values):
            originals.add(value, f"<KEY_{number}>")
        assert [token for _, _, token in originals.spans(", ".join(values))] == [f"<KEY_{it}>" for it in range(100)]
