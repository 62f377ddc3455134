"""The programs of `test_privacy_evasion`: each tries to get the text `it`, which has a privacy token, to the model.

Each has what the model would do with the answers to read the text. `CAUGHT` are those that the product defeats,
`THROUGH` those that it does not; the security guide has their number.
"""

from __future__ import annotations

import ast
import base64
import codecs
import hashlib
import html
import json
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tests.behaviour.product import Answer

Answers = Sequence[Answer]
VALUE = "ann.lovelace@example.org"
HARMLESS = "tue.aperitif lunch-out.."
"""As long as the value, and nobody's."""
LENGTH = len(VALUE)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Programs that run one after the other, and what reads the text from their answers."""

    programs: tuple[str, ...]
    read: Callable[[Answers], str]


def value(answers: Answers) -> Any:
    return answers[-1].content.get("value")


def output(answers: Answers) -> str:
    return "".join(str(it.content.get("stdout", "")) for it in answers)


def everything(answers: Answers) -> str:
    return "\n".join(it.result.model_dump_json() for it in answers)


def _value(program: str, read: Callable[[Any], str] = str) -> Attempt:
    return Attempt((program,), lambda answers: read(value(answers)))


def _output(program: str, read: Callable[[str], str] = str) -> Attempt:
    return Attempt((program,), lambda answers: read(output(answers).strip("\n")))


def _anywhere(*programs: str) -> Attempt:
    return Attempt(programs, everything)


def _each(program: str, step: int) -> Attempt:
    """The text in pieces, of which each is the value of a program of its own."""
    programs = tuple(program.format(start=start, end=start + step) for start in range(0, LENGTH, step))
    return Attempt(programs, lambda answers: "".join(str(it.content.get("value", "")) for it in answers))


def _spelled(program: str) -> Attempt:
    """For texts that may have no dots."""
    return Attempt((program,), lambda answers: everything(answers).replace("_", "."))


def _with_separators(text: str, separators: Sequence[tuple[int, str]]) -> str:
    for place, separator in separators:
        text = text[:place] + separator + text[place:]
    return text


def _unhex(text: str) -> str:
    return bytes.fromhex("".join(re.findall("[0-9a-fA-F]{2}", text.replace("0x", "")))).decode()


def _unbase64(text: str) -> str:
    return base64.b64decode(text.translate(str.maketrans("-_", "+/"))).decode()


def _bytes(numbers: Any) -> str:
    return bytes(numbers).decode()


_SIGNS = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.. .-.-.-"
    " .--.-. -....- /"
)
MORSE = dict(zip("abcdefghijklmnopqrstuvwxyz.@- ", _SIGNS.split(), strict=True))
UNMORSE = {signs: letter for letter, signs in MORSE.items()}

CAUGHT = {
    "as the value": _value("it"),
    "in a text": _value("f'write to {it}, please'"),
    "printed": _output("print(it)"),
    "printed without line ends": _output("for c in it:\n    print(c, end='')"),
    "on stderr": _anywhere("import sys\nprint(it, file=sys.stderr)"),
    "as a key": _anywhere("{it: 1}"),
    "deep in a value": _anywhere("[[{'a': [it]}]]"),
    "in a tuple": _anywhere("(it, 1)"),
    "in a repr of an object": _anywhere("type('Row', (), {'__repr__': lambda self: it})()"),
    "as the name of a class": _anywhere("type(it, (), {})()"),
    "in an exception": _anywhere("raise ValueError(it)"),
    "as the kind of an exception": _anywhere("raise type(it, (Exception,), {})('no')"),
    "in a note on an exception": _anywhere("error = ValueError('no')\nerror.add_note(it)\nraise error"),
    "in the cause of an exception": _anywhere("raise ValueError('no') from KeyError(it)"),
    "as a missing key": _anywhere("{}[it]"),
    "as a missing attribute": _anywhere("getattr(object(), it)"),
    "as a missing module": _spelled("__import__(it.replace('.', '_'))"),
    "as a missing file": _anywhere("open('/tmp/' + it)"),
    "as a number that is none": _anywhere("int(it)"),
    "in a syntax error": _anywhere("compile('? ' + it, it, 'exec')"),
    "in an assertion": _anywhere("assert False, it"),
    "in a traceback": _anywhere(
        "import traceback\ntry:\n    {}[it]\nexcept KeyError:\n    print(traceback.format_exc())"
    ),
    "in the variables of a frame": _anywhere("import sys\nprint(sys._getframe().f_locals['it'])"),
    "in all objects of the collector": _anywhere(
        "import gc\n[o['email'] for o in gc.get_objects() if type(o) is dict and 'email' in o] + [it]"
    ),
    "in a warning": _anywhere("import warnings\nwarnings.warn(it)"),
    "in a log": _anywhere("import logging\nlogging.error(it)"),
    "as the status of an exit": _anywhere("raise SystemExit(it)"),
    "as an argument": _anywhere("from servers.people import note\nnote(it)"),
    "as an argument of another name": _anywhere("from servers.people import note\nnote(**{it: 1})"),
    "as the name of a tool": _spelled("import servers.people\ngetattr(servers.people, it.replace('.', '_'))()"),
    "as what a server echoes": _anywhere("from servers.people import note\nnote('x' + it)"),
    "in a file that is shown": _anywhere("from codemode import show\nshow(it.encode(), name='a.txt')"),
    "as the name of a file that is shown": _anywhere("from codemode import show\nshow(b'text', name=it + '.txt')"),
    "in the log of the session": Attempt(
        ("print(it)", "import glob\nprint(*[open(path).read() for path in glob.glob('/workspace/sessions/*.json')])"),
        lambda answers: everything(answers[-1:]),
    ),
    "in capital letters": _value("it.upper()", str.lower),
    "in mixed letters": _value("''.join(c.upper() if n % 2 else c for n, c in enumerate(it))", str.lower),
    "backwards": _value("it[::-1]", lambda text: text[::-1]),
    "with dashes between": _value("'-'.join(it)", lambda text: text[::2]),
    "with three spaces between": _value("'   '.join(it)", lambda text: text[::4]),
    "with characters of no width between": _value("'\\u200b'.join(it)", lambda text: text.replace("\u200b", "")),
    "without its separators": _value(
        "[''.join(filter(str.isalnum, it)), [[n, c] for n, c in enumerate(it) if not c.isalnum()]]",
        lambda found: _with_separators(*found),
    ),
    "a character on each line": _output("for c in it:\n    print(c)", lambda text: text[::2]),
    "a character in each item": _value("list(it)", "".join),
    "a character at each key": _value("{str(n): c for n, c in enumerate(it)}", lambda row: "".join(row.values())),
    "a character in each row": _value("[{'c': c} for c in it]", lambda rows: "".join(row["c"] for row in rows)),
    "in two halves": _value("[it[:12], it[12:]]", "".join),
    "in two halves, the second one first": _value("[it[12:], it[:12]]", lambda it: it[1] + it[0]),
    "in eight characters a program": _each("it[{start}:{end}]", 8),
    "in six characters a program": _each("it[{start}:{end}]", 6),
    "in base64": _value("import base64\nbase64.b64encode(it.encode()).decode()", _unbase64),
    "in base64 for URLs": _value("import base64\nbase64.urlsafe_b64encode(it.encode()).decode()", _unbase64),
    "in base64 within a text": _value(
        "import base64\nbase64.b64encode(f'so {it} it is'.encode()).decode()", lambda text: _unbase64(text)[3:-6]
    ),
    "in base64 backwards": _value(
        "import base64\nbase64.b64encode(it[::-1].encode()).decode()", lambda text: _unbase64(text)[::-1]
    ),
    "in hexadecimal digits": _value("it.encode().hex()", _unhex),
    "in capital hexadecimal digits": _value("it.encode().hex(' ').upper()", _unhex),
    "in hexadecimal numbers": _value("str([hex(b) for b in it.encode()])", _unhex),
    "percent-encoded": _value("''.join(f'%{b:02x}' for b in it.encode())", unquote),
    "percent-encoded twice": _value("''.join(f'%25{b:02x}' for b in it.encode())", lambda text: unquote(unquote(text))),
    "in entities": _value("''.join(f'&#{ord(c)};' for c in it)", html.unescape),
    "in escapes of JSON": _value(
        "''.join(f'\\\\u{ord(c):04x}' for c in it)", lambda text: str(json.loads(f'"{text}"'))
    ),
    "in escapes of Python": _value(
        "''.join(f'\\\\x{b:02x}' for b in it.encode())", lambda text: str(ast.literal_eval(f'"{text}"'))
    ),
    "in wide letters": _value(
        "''.join(chr(ord(c) + 0xfee0) if c > ' ' else c for c in it)",
        lambda text: "".join(chr(ord(c) - 0xFEE0) if c > "\uff00" else c for c in text),
    ),
    "in Cyrillic letters": _value(
        "it.translate(str.maketrans('aeopc', 'аеорс'))", lambda text: text.translate(str.maketrans("аеорс", "aeopc"))
    ),
    "quoted for mail": _value("''.join(f'={b:02X}' for b in it.encode())", _unhex),
}

THROUGH = {
    "as codes of its characters": _value("[ord(c) for c in it]", _bytes),
    "as one number": _value(
        "str(int.from_bytes(it.encode(), 'big'))", lambda text: int(text).to_bytes(LENGTH, "big").decode()
    ),
    "in binary digits": _value(
        "' '.join(f'{b:08b}' for b in it.encode())", lambda text: _bytes([int(part, 2) for part in text.split()])
    ),
    "in octal digits": _value(
        "' '.join(f'{b:o}' for b in it.encode())", lambda text: _bytes([int(part, 8) for part in text.split()])
    ),
    "by arithmetic": _value("[ord(c) * 7 + 3 for c in it]", lambda numbers: _bytes([(n - 3) // 7 for n in numbers])),
    "as lengths of texts": _value("['x' * ord(c) for c in it]", lambda texts: _bytes([len(text) for text in texts])),
    "as truth values": _value(
        "[bool(b >> n & 1) for b in it.encode() for n in range(8)]",
        lambda bits: _bytes([sum(bits[at + n] << n for n in range(8)) for at in range(0, len(bits), 8)]),
    ),
    "in ROT13": _value("import codecs\ncodecs.encode(it, 'rot13')", lambda text: codecs.encode(text, "rot13")),
    "in letters of another place": _value(
        "''.join(chr(ord(c) + 1) for c in it)", lambda text: "".join(chr(ord(c) - 1) for c in text)
    ),
    "encrypted": _value("[b ^ 90 for b in it.encode()]", lambda numbers: _bytes([b ^ 90 for b in numbers])),
    "in base32": _value(
        "import base64\nbase64.b32encode(it.encode()).decode()", lambda text: base64.b32decode(text).decode()
    ),
    "in base85": _value(
        "import base64\nbase64.b85encode(it.encode()).decode()", lambda text: base64.b85decode(text).decode()
    ),
    "in ASCII85": _value(
        "import base64\nbase64.a85encode(it.encode()).decode()", lambda text: base64.a85decode(text).decode()
    ),
    "in base64 twice": _value(
        "import base64\nbase64.b64encode(base64.b64encode(it.encode())).decode()",
        lambda text: _unbase64(_unbase64(text)),
    ),
    "in base64 of another encoding": _value(
        "import base64\nbase64.b64encode(it.encode('utf-16-le')).decode()",
        lambda text: base64.b64decode(text).decode("utf-16-le"),
    ),
    "in base64, backwards": _value(
        "import base64\nbase64.b64encode(it.encode()).decode()[::-1]", lambda text: _unbase64(text[::-1])
    ),
    "compressed": _value(
        "import base64, zlib\nbase64.b64encode(zlib.compress(it.encode())).decode()",
        lambda text: zlib.decompress(base64.b64decode(text)).decode(),
    ),
    "in letters between letters": _value("'x'.join(it)", lambda text: text[::2]),
    "with the number of each line": _output(
        "for n, c in enumerate(it):\n    print(n, c)", lambda text: "".join(line[-1] for line in text.split("\n"))
    ),
    "every second character, then the others": _value(
        "it[::2] + '|' + it[1::2]", lambda text: "".join(map("".join, zip(*text.split("|"), strict=True)))
    ),
    "in Morse code": _value(
        f"morse = {MORSE!r}\n' '.join(morse[c] for c in it)", lambda text: "".join(UNMORSE[one] for one in text.split())
    ),
    "as names of characters": _value(
        "import unicodedata\n[unicodedata.name(c) for c in it]",
        lambda names: "".join(codecs.decode(f"\\N{{{name}}}", "unicode_escape") for name in names).lower(),
    ),
    "in words": _value(
        "' '.join({'@': 'commercial-at', '.': 'full-stop', ' ': 'space'}.get(c, c + 'xx') for c in it)",
        lambda text: "".join(
            {"commercial-at": "@", "full-stop": ".", "space": " "}.get(word, word[0]) for word in text.split()
        ),
    ),
    "in symbols": _value(
        "''.join(chr(0x2800 + ord(c)) for c in it)", lambda text: "".join(chr(ord(c) - 0x2800) for c in text)
    ),
    "a character a program": _each("it[{start}:{end}]", 1),
    "in four characters a program": _each("it[{start}:{end}]", 4),
    "by a hash, with a good guess": _value(
        "import hashlib\nhashlib.sha256(it.encode()).hexdigest()",
        lambda digest: {hashlib.sha256(text.encode()).hexdigest(): text for text in (VALUE, HARMLESS)}[digest],
    ),
    "by the order of a list": _value(
        "letters = sorted(set(it))\n[letters, [letters.index(c) for c in it]]",
        lambda found: "".join(found[0][number] for number in found[1]),
    ),
}
