"""Texts in other encodings and within other texts are searched, and are written again as they were."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from codemode_server.privacy.detector import Detector
from codemode_server.privacy.encodings import read_text
from codemode_server.privacy.replacing import replaced

TABLE = "full_name,email\nAnn Müller,ann.lee@example.org\nBob Ray,bob.ray@example.org\n"


def tokenized(value: Any) -> Any:
    found = Detector().in_value(value).found
    return replaced(value, found, {(it.kind, it.value): f"<{it.kind.upper()}_1>" for it in found})


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "latin-1", "cp1252"],
)
def test_a_text_is_read_in_its_encoding_and_written_in_it(encoding: str) -> None:
    data = TABLE.encode(encoding)
    file = read_text(data)
    assert file is not None
    assert file.text.removeprefix("\ufeff") == TABLE
    assert file.bytes_of(file.text) == data


@pytest.mark.parametrize("damage", [b"\xff", b"\x00", b"\x1b[0m", b"\xc3"])
def test_a_wrong_byte_makes_no_other_file_of_a_text(damage: bytes) -> None:
    file = read_text(TABLE.encode() + damage + TABLE.encode())
    assert file is not None
    assert file.text.count("Ann Müller,ann.lee@example.org") == 2
    assert file.bytes_of(file.text) == TABLE.encode() + damage + TABLE.encode()


def test_a_text_that_ends_in_the_middle_of_a_letter_is_searched() -> None:
    file = read_text(TABLE.encode("utf-16") + b"x")
    assert file is not None
    assert "ann.lee@example.org" in file.text


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00", bytes(range(256)), b"PK\x03\x04\x14\x00\x00\x00\x08\x00"]
)
def test_a_file_that_is_no_text_is_none(data: bytes) -> None:
    assert read_text(data) is None


@pytest.mark.parametrize("width", [0, 60])
def test_base64_of_a_text_in_a_value_is_searched(width: int) -> None:
    """As the content of a file that a repository's API answers with, in lines or in one."""
    encoded = base64.b64encode(TABLE.encode()).decode()
    lines = "\n".join(encoded[at : at + width] for at in range(0, len(encoded), width)) + "\n" if width else encoded
    made = tokenized({"name": "people.csv", "encoding": "base64", "content": lines})["content"]
    assert base64.b64decode(made).decode() == "full_name,email\n<NAME_1>,<EMAIL_1>\n<NAME_1>,<EMAIL_1>\n"
    assert max(map(len, made.splitlines())) == (width or len(made))
    assert ("\n" in made) == bool(width)


@pytest.mark.parametrize("text", ["customerName123456", "d41d8cd98f00b204e9800998ecf8427e", "SGVsbG8gd29ybGQsIGhlbGxv"])
def test_what_is_no_base64_or_has_no_personal_data_stays(text: str) -> None:
    assert tokenized({"content": text}) == {"content": text}


def test_what_is_base64_by_chance_is_searched_as_it_is_written_too() -> None:
    key = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    assert tokenized({"content": key}) == {"content": "<CREDENTIAL_1>"}


@pytest.mark.parametrize("form", [{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}])
def test_json_in_a_text_is_written_again_as_it_was(form: dict[str, Any]) -> None:
    text = json.dumps({"full_name": "Ann Müller", "note": ["x\nann.lee@example.org", 1.5, None], "größe": 2}, **form)
    made = tokenized({"body": text})["body"]
    wanted = {"full_name": "<NAME_1>", "note": ["x\n<EMAIL_1>", 1.5, None], "größe": 2}
    assert made == json.dumps(wanted, **form)


@pytest.mark.parametrize("text", ["", " ", "{", "[]", "{}", "\n", "\ufeff"])
def test_texts_without_content_have_no_findings(text: str) -> None:
    assert Detector().in_text(text).found == ()
    assert tokenized({"body": text}) == {"body": text}


def test_json_with_a_key_twice_is_searched_as_a_text() -> None:
    text = '{"a": "ann.lee@example.org", "a": "x"}'
    assert tokenized([text]) == ['{"a": "<EMAIL_1>", "a": "x"}']


MAIL = (
    "Subject: people\r\n\r\n--b\r\nContent-Type: text/csv\r\nContent-Transfer-Encoding: base64\r\n"
    "Content-Disposition: inline\r\n\r\n{}\r\n--b--\r\n"
)


@pytest.mark.parametrize("around", ["![a](data:text/plain;base64,{})", "data:text/csv;charset=utf-8;base64,{}", MAIL])
@pytest.mark.parametrize("width", [0, 40])
def test_base64_that_a_text_declares_is_searched_and_the_rest_of_the_text_stays(around: str, width: int) -> None:
    encoded = base64.b64encode(TABLE.encode()).decode()
    if width and around is MAIL:
        encoded = "\r\n".join(encoded[at : at + width] for at in range(0, len(encoded), width))
    before, after = around.split("{}")
    made = tokenized({"text": f"to ann.lee@example.org: {before}{encoded}{after}"})["text"]
    assert made.startswith(f"to <EMAIL_1>: {before}")
    assert made.endswith(after)
    held = made.removeprefix(f"to <EMAIL_1>: {before}").removesuffix(after)
    assert base64.b64decode(held).decode() == "full_name,email\n<NAME_1>,<EMAIL_1>\n<NAME_1>,<EMAIL_1>\n"
    control = around.format(base64.b64encode(b"nothing is personal here").decode())
    assert tokenized({"text": control}) == {"text": control}


def test_a_finding_around_declared_base64_takes_all_of_it() -> None:
    encoded = base64.b64encode(TABLE.encode()).decode().rstrip("=")
    assert tokenized({"password": f"data:;base64,{encoded}"}) == {"password": "<CREDENTIAL_1>"}


def test_an_image_in_a_text_stays() -> None:
    text = f'<img src="data:image/png;base64,{base64.b64encode(bytes(range(256))).decode()}">'
    assert tokenized({"text": text}) == {"text": text}
