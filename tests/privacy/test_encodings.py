"""Texts in other encodings and within other texts are searched, and are written again as they were."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from codemode_server.features.privacy.detector import Detector
from codemode_server.features.privacy.replacing import replaced, text_of_file

TABLE = "full_name,email\nAnn Müller,ann.lee@example.org\nBob Ray,bob.ray@example.org\n"


def tokenized(value: Any) -> Any:
    found = Detector().in_value(value).found
    return replaced(value, found, {(it.kind, it.value): f"<{it.kind.upper()}_1>" for it in found})


@pytest.mark.parametrize("damage", [b"", b"\xff", b"\x1b[0m", b"\xc3"])
def test_a_file_with_wrong_bytes_is_searched_and_written_again(damage: bytes) -> None:
    data = TABLE.encode() + damage + TABLE.encode()
    file = text_of_file(data)
    assert file is not None
    assert file.text.count("Ann Müller,ann.lee@example.org") == 2
    assert file.bytes_of(file.text) == data


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_a_text_is_read_in_its_encoding_and_written_in_it(encoding: str) -> None:
    data = TABLE.encode(encoding)
    file = text_of_file(data)
    assert file is not None
    assert file.text.removeprefix("\ufeff") == TABLE
    assert file.bytes_of(file.text) == data


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00", TABLE.encode("utf-16-le"), b"\xff\xfea"]
)
def test_a_binary_file_is_no_text(data: bytes) -> None:
    assert text_of_file(data) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<a href='mailto:c.danvers%40x.org'>C</a>", "<a href='mailto:<EMAIL_1>'>C</a>"),
        ("or d.milaje&#64;x.org, d.milaje&commat;x.org", "or <EMAIL_1>, <EMAIL_1>"),
        ("%22jos%C3%A9%40x.org%22%20&amp; more", "%22<EMAIL_1>%22%20&amp; more"),
        ("100% of a%20b &lt;b&gt; &unknown; %GG", "100% of a%20b &lt;b&gt; &unknown; %GG"),
        ("&lt;ann%2Eb%40x.org&gt;&#x110000;", "&lt;<EMAIL_1>&gt;&#x110000;"),
    ],
)
def test_escapes_of_urls_and_html_are_undone(text: str, shown: str) -> None:
    assert tokenized({"text": text}) == {"text": shown}


@pytest.mark.parametrize(("width", "end"), [(0, ""), (60, ""), (0, "\x1a"), (60, "\x1a" + 600 * "\n")])
def test_base64_of_a_text_in_a_value_is_searched(width: int, end: str) -> None:
    """As the content of a file that a repository's API answers with, in lines or in one; DOS ended files with 1A."""
    encoded = base64.b64encode((TABLE + end).encode()).decode()
    lines = "\n".join(encoded[at : at + width] for at in range(0, len(encoded), width)) + "\n" if width else encoded
    made = tokenized({"name": "people.csv", "encoding": "base64", "content": lines})["content"]
    assert base64.b64decode(made).decode() == "full_name,email\n<NAME_1>,<EMAIL_1>\n<NAME_1>,<EMAIL_1>\n" + end


@pytest.mark.parametrize("separator", ["\n", "\r\n"])
def test_a_list_of_numbers_is_no_file_in_base64(separator: str) -> None:
    assert tokenized(separator.join(["DE89370400440532013000"] * 50)) == separator.join(["<IBAN_1>"] * 50)


@pytest.mark.parametrize("text", ["customerName123456", "d41d8cd98f00b204e9800998ecf8427e", "SGVsbG8gd29ybGQsIGhlbGxv"])
def test_what_is_no_base64_or_has_no_personal_data_stays(text: str) -> None:
    assert tokenized({"content": text}) == {"content": text}


@pytest.mark.parametrize("form", [{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}])
def test_json_in_a_text_is_written_again_as_it_was(form: dict[str, Any]) -> None:
    text = json.dumps({"full_name": "Ann Müller", "note": ["x\nann.lee@example.org", 1.5, None], "größe": 2}, **form)
    made = tokenized({"body": text})["body"]
    wanted = {"full_name": "<NAME_1>", "note": ["x\n<EMAIL_1>", 1.5, None], "größe": 2}
    assert made == json.dumps(wanted, **form)
