"""The attacks, each as requests of one host: programs, what a hostile upstream is told to do, and odd requests.

An attack is a name, what the upstream `benchmarks/hostile.py` is to do, and a function that writes the requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PROGRAM_SECONDS = 2.5
"""After which a program that would never end is ended; the upstreams go on for longer."""
RAW = """
import json, sys, time
for module in list(sys.modules.values()):
    if getattr(module, "__name__", "").endswith("wit_world"):
        raw = module
def flood(op, **fields):
    text = json.dumps({"op": op, "id": 0, **fields})
    head, _, tail = text.partition('"id": 0')
    for n in range(1, 10**9):
        raw.send(f'{head}"id": {n}{tail}')
        yield n
def read(): return raw.receive(-1)
def calls(arguments, number):
    for n in range(1, number + 1):
        raw.send('{"op":"call","id":%d,"server":"plain","tool":"attack","arguments":%s}' % (n, arguments))
    time.sleep(60)
def finish(value):
    raw.send('{"op":"done","value":%s,"value_form":"json","error":null}' % value)
    time.sleep(60)
"""
"""The channel beneath all that the guest offers, found by looking around, as a hostile program would."""


@dataclass(frozen=True)
class Attack:
    name: str
    bodies: Callable[[], list[bytes]]
    """Sent one after the other, or at once."""
    upstream: str = ""
    """`plain` (stdio) or `web` (HTTP), where one attacks."""
    how: str = ""
    """What it will be asked to do; it is told before, so that it is ready."""
    is_at_once: bool = False


def tool(name: str, **arguments: Any) -> bytes:
    """The body of a call of a meta-tool."""
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": "attack", "method": "tools/call", "params": params}).encode()


def program(name: str, code: str) -> Attack:
    return Attack(f"program: {name}", lambda: [tool("execute_code", code=code, timeout=PROGRAM_SECONDS)])


def raw(name: str, code: str) -> Attack:
    return program(name, RAW + code)


def upstream(server: str, how: str, then: str = "pass") -> Attack:
    code = f"from servers.{server} import attack\nfound = attack(how={how!r})\n{then}\ntype(found).__name__"
    kind = "stdio" if server == "plain" else "HTTP"
    bodies = [tool("execute_code", code=code, timeout=PROGRAM_SECONDS)]
    return Attack(f"{kind} upstream: {how}", lambda: bodies, server, how)


def request(name: str, make: Callable[[], bytes], times: int = 1) -> Attack:
    if times == 1:
        return Attack(f"request: {name}", lambda: [make()])

    def bodies() -> list[bytes]:
        body = make()
        return [body.replace(b'"attack"', str(number).encode(), 1) for number in range(times)]

    return Attack(f"request: {name}", bodies, is_at_once=True)


def code(name: str, make: Callable[[], str]) -> Attack:
    """A program that is hard to check before it runs, if it is no longer than those that are checked: 64 KiB."""
    return request(name, lambda: tool("execute_code", code=make(), timeout=PROGRAM_SECONDS))


MANY_WORDS = "' '.join(f'word{n} creates{n}' for n in range(1_200))"
READS = "import time\ntime.sleep(2)"

PROGRAMS = [
    program("a harmless one, as the control", "import time\ntime.sleep(1)\nsum(range(1000))"),
    raw("1,000 calls of 16 MiB", """calls('{"how":"never","x":"%s"}' % ("x" * (16 * 2**20 - 100)), 1_000)"""),
    raw("200 calls of 2 MB of []", """calls('{"how":"never","x":[%s[]]}' % ("[]," * (7 * 10**5)), 200)"""),
    raw("a value of 4 MiB of []", 'finish("[" + "[]," * 1_390_000 + "1]")'),
    program("prints one character at a time", "import sys\nwhile True: sys.stdout.write('x'); sys.stdout.flush()"),
    raw("empty output frames", "for _ in flood('output', stream='stdout', text=''): pass"),
    program("prints 8 MB in lines", "for _ in range(2**20): print('x y z')"),
    raw(
        "searches without end",
        f"query = {MANY_WORDS}\n"
        "for _ in flood('search', query=query, detail_level='full', server=None, limit=100): read()",
    ),
    raw(
        "searches that nobody reads",
        "for _ in flood('search', query='attack', detail_level='full', server=None, limit=100): pass",
    ),
    raw("loads of what is missing", "for _ in flood('load', module='servers.plain.' + 'a' * 400): read()"),
    raw("shows of 15 MB", "for _ in flood('show', data='QUJD' * (15 * 10**6 // 4), mime_type=None, name='x'): read()"),
    raw("calls that are refused, without end", "for _ in flood('call', server='x', tool='y', arguments={}): read()"),
    program(
        "200,000 arguments that do not exist",
        "import codemode\ncodemode.call('plain', 'checked', {f'x{n}': 1 for n in range(200_000)})",
    ),
    program(
        "500,000 wrong items of an argument",
        "import codemode\ncodemode.call('plain', 'checked', {'numbers': ['a'] * 500_000})",
    ),
    program("20,000 small files", "for n in range(20_000): open(f'/workspace/f{n}', 'w').write('x')"),
    program("its memory", "x = []\nwhile True: x.append(bytes(10**6))"),
]

STDIO = [
    upstream("plain", "text of 60 MB"),
    upstream("plain", "objects, 15 MB"),
    upstream("plain", "JSON in a text, 15 MB"),
    upstream("plain", "deep"),
    upstream("plain", "blocks, 200,000"),
    upstream("plain", "a line without end"),
    upstream("plain", "tools of 53 MB", READS),
    upstream("plain", "a schema of 4 MB", READS),
    upstream("plain", "notifications"),
    upstream("plain", "progress"),
    upstream("plain", "stderr"),
    Attack(
        "stdio upstream: a resource of 100 MB",
        lambda: [
            tool(
                "execute_code",
                code=RAW
                + "from servers.plain import attack\nfound = attack(how='link')\n"
                + """raw.send('{"op":"read","id":1000,"server":"plain","uri":"x://big"}')\nread()[:300]""",
                timeout=PROGRAM_SECONDS,
            )
        ],
        "plain",
        "link",
    ),
    Attack(
        "program: replies of 16 MB that nobody reads",
        lambda: [tool("execute_code", code=RAW + """calls('{"how":"text of 16 MB"}', 100)""", timeout=PROGRAM_SECONDS)],
        "plain",
        "text of 16 MB",
    ),
]

HTTP = [
    upstream("web", "JSON without end"),
    upstream("web", "gzip bomb"),
    upstream("web", "lines of one event without end"),
    upstream("web", "events without end"),
    upstream("web", "headers without end"),
    upstream("web", "chunks of one byte in long lines"),
    upstream("web", "objects, 15 MB"),
    upstream("web", "objects, 60 MB"),
    upstream("web", "deep"),
]

MB = 10**6
"""Just within what a request may have."""


def _functions() -> str:
    """Functions that call one another, each within a `try`."""
    return "\n".join(
        f"def f{n}():\n    try: f{(n * 7 + 1) % 800}(); f{(n * 3 + 2) % 800}()\n    except KeyError: f{n}()"
        for n in range(800)
    )


def _calls(number: int) -> str:
    return "from servers.plain import attack\n" + "\n".join(f"x{n} = attack(a={n})" for n in range(number))


REQUESTS = [
    request("read_tool of 40,000 paths", lambda: tool("read_tool", path="/servers/plain/attack.py," * 40_000)),
    request(
        "a query of 1 MB, many words", lambda: tool("search_tools", query=" ".join(f"wrd{n}" for n in range(100_000)))
    ),
    request("9,000 arguments", lambda: tool("list_dir", **{f"x{n}": "y" * 20 for n in range(9_000)})),
    request("an argument of 250,000 lists", lambda: tool("list_dir", path=[[]] * 250_000)),
    request("a body nested deep", lambda: b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b"[" * MB),
    request("a body of 100 MB", lambda: tool("list_dir", path="a" * (100 * MB))),
    code("a program of 40,000 calls of tools", lambda: _calls(40_000)),
    code("a program of 1 MB of brackets", lambda: "[" * MB),
    code(
        "a program of a long sum of calls", lambda: "from servers.plain import attack\nx = " + "attack() + " * 900 + "1"
    ),
    code("a program of a long chain", lambda: "from servers.plain import attack\nx = attack()" + ".a['b']" * 900),
    code(
        "a program of 800 functions", lambda: "from servers.plain import attack\n" + _functions() + "\nf0()\nattack()"
    ),
    code(
        "a program of 1,500 wrong imports",
        lambda: "\n".join(f"from servers.plain import attck{n}" for n in range(1_500)),
    ),
    code(
        "a program of 700 branches",
        lambda: (
            "from servers.plain import attack\nx = attack()\n"
            + "\n".join(f"if x == {n}: x = attack(a={n})['k{n}']\nelse: x = [x]" for n in range(700))
        ),
    ),
    code(
        "a program that joins types",
        lambda: (
            "from servers.plain import attack\nx = attack()\n"
            + "\n".join(f"y{n + 1} = (y{n}, y{n}) if x else [y{n}]" if n else "y1 = x" for n in range(60))
        ),
    ),
    code("a program of loops in loops", lambda: "\n".join(" " * n + "for _ in range(9):" for n in range(19)) + " pass"),
    request("50 searches at once", lambda: tool("search_tools", query="create an issue " * 1_200), 50),
    request("50 programs at once", lambda: tool("execute_code", code="sum(range(200_000))"), 50),
    request("50 programs to check at once", lambda: tool("execute_code", code=_calls(500), timeout=1), 50),
    request("120 bodies of 1 MB at once", lambda: tool("list_dir", path="a" * MB), 120),
]

ATTACKS = {attack.name: attack for attack in [*PROGRAMS, *STDIO, *HTTP, *REQUESTS]}
