"""The program in a text as models send it: whatever is around it goes, and a text that is Python, a value or broken
stays as it is.
"""

from __future__ import annotations

import textwrap
import time

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.executions.preflight.guesses import other_language
from codemode_server.executions.program_text import as_python, may_hold_program

TWO = "x = 2\nx"
WRAPPED = {
    "fence": "```python\nx = 2\nx\n```",
    "fence of three letters, with line ends of Windows": "```py\r\nx = 2\r\nx\r\n```\r\n",
    "tildes": "~~~\nx = 2\nx\n~~~",
    "indented fence": "   ```python\n   x = 2\n   x\n   ```",
    "unclosed": "```python\nx = 2\nx",
    "unopened": "x = 2\nx\n```",
    "prose around": "This gives two (as asked):\n\n```python\nx = 2\nx\n```\n\nIt works.",
    "two blocks": "First:\n```python\nx = 2\n```\nThen:\n```python\nx\n```",
    "a block of shell before": "```bash\npip install x\n```\n```python\nx = 2\nx\n```",
    "byte order mark": "\ufeffx = 2\nx",
    "zero-width and no-break spaces": "x\u200b =\xa02\nx",
    "escaped line ends": "x = 2\\nx",
    "escaped twice": "x = 2\\\\nx",
    "object": '{"code": "x = 2\\nx", "description": "two"}',
    "object of Python": "{'script': '''x = 2\nx'''}",
    "call of our tool": '{"name": "execute_code", "arguments": {"code": "x = 2\\nx"}}',
    "text of JSON": '"x = 2\\nx"',
    "fence in an object": '{"program": "```python\\nx = 2\\nx\\n```"}',
    "tags": "<code>x = 2\nx</code>",
    "CDATA": '<program lang="python"><![CDATA[x = 2\nx]]></program>',
    "label": "python\nx = 2\nx",
    "label at the end": "x = 2\nx\npython",
    "indentation": "    x = 2\n    x",
    "indentation but for the first line": "x = 2\n    x",
    "session": ">>> x = 2\n>>> x\n2",
}
OTHERS = {
    "say(“it’s”)": 'say("it’s")',
    'say(‘a "b"’)': 'say("a \\"b\\"")',
    'say(\\"hi\\")\\nx': 'say("hi")\nx',
    "a = 'x\\ny'\\nsay(a)": "a = 'x\ny'\nsay(a)".replace("x\n", "x\\n"),
    "# don't\\na = 'x'\\nsay(a)": "# don't\na = 'x'\nsay(a)",
    "`say(1)`": "say(1)",
    "```\ndef f():\n    return '```'\nf()\n```": "def f():\n    return '```'\nf()",
}


@pytest.mark.parametrize("text", WRAPPED.values(), ids=WRAPPED)
def test_a_program_is_taken_out_of_what_is_around_it(text: str) -> None:
    assert may_hold_program(text)
    assert as_python(text).replace("\r", "").replace("\n\n", "\n").strip() == TWO


@pytest.mark.parametrize("text", OTHERS)
def test_quotes_and_line_ends_within_texts_stay(text: str) -> None:
    assert may_hold_program(text)
    assert as_python(text).strip() == OTHERS[text]


@pytest.mark.parametrize(
    "text",
    [
        *("x = 1 +", "'hello'", '"2026-11-29"', '{"code": "abc"}', '{"a": 1}', '"""Doc."""\nsay(1)', "say('a\\nb'"),
        *("x = '''\n```\nsay(1)\n```\n''' +", 'x = "“quoted”"\nx', '{"code": "say(1)", "dry_run": true}'),
        *('{"tool": "db.run", "arguments": {"code": "say(1)"}}', "say('a') # ```"),
        *("", "```python\n```", "ls -la", "```json\n{}\n```", "if a:\n    b(\n", "python = 1\npython"),
    ],
)
def test_another_text_stays_as_it_is(text: str) -> None:
    assert as_python(text) == text


@pytest.mark.parametrize(
    "text", ['say("a\\nb", "it’s")\nx = {"a": "\\"b\\""}\n', "def f():\n    return 1\nf()\n", "x = [\n  1]\n"]
)
def test_an_ordinary_program_is_not_even_parsed(text: str) -> None:
    assert not may_hold_program(text)


def test_a_long_program_loses_its_indentation_only() -> None:
    text = "# note\n" * 3_000 + "x = 2\nx"
    indented = textwrap.indent(text, "    ")
    assert may_hold_program(indented)
    assert as_python(indented) == text
    assert not may_hold_program(text)
    assert as_python(f"```\n{text}\n```") == f"```\n{text}\n```"


@pytest.mark.parametrize(
    "text",
    [
        *("\\n" * 7_000 + "x\ny = 1", "`" + " " * 16_000, "<" + "a" * 7_900 + ">" + "</" * 3_900 + "x"),
        *("f(\\n" + '\\"' * 7_900, "f(\\n" + "\\'" * 7_900, "\n" * 16_000 + "`", '{"code": "x", ' * 1_000),
        *("// a" + "\n" * 8_000, "// " + "a" * 16_000),
    ],
    ids=str.__len__,
)
def test_no_text_takes_long(text: str) -> None:
    """Regular expressions hold the interpreter's lock, so a thread would not help. Without care each takes seconds."""
    before = time.thread_time()
    may_hold_program(text)
    as_python(text)
    other_language(text, Catalog())
    assert time.thread_time() - before < 0.5
