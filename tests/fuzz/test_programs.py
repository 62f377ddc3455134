"""A program's text, which is read on the host before it runs: findings or none, whatever the text is."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.executions.preflight.findings import Findings, syntax_findings
from codemode_server.executions.preflight.preflight import CheckContext
from codemode_server.executions.preflight.reading import read
from codemode_server.executions.preflight.result_types import result_findings
from tests.fuzz.strategies import damaged, texts

SCHEMA = {
    "type": "object",
    "required": ["owner"],
    "properties": {"owner": {"type": "string"}, "from": {"type": "integer"}, "state": {"enum": ["open", "closed"]}},
}
OUTPUT = {"type": "object", "properties": {"id": {"type": "integer"}, "items": {"type": "array"}}, "required": ["id"]}
TOOLS = (
    ToolDefinition("list_issues", "Lists issues", None, SCHEMA, OUTPUT),
    ToolDefinition("get-sum", "Adds", None, {"type": "object", "properties": {"a": {"type": "number"}}}, None),
)
CATALOG = Catalog.build([UpstreamListing("github", UpstreamState.READY, TOOLS)])
LINES = (
    *("from servers.github import list_issues", "from servers.github import get-sum", "import servers.github as g"),
    *("from servers import github", "from servers.nothing import x", "from codemode import show, results", "import os"),
    *("list_issues(owner='a')", "x = list_issues('a', from=1)", "list_issues(**{'owner': 1})", "list_issues.map([1])"),
    *("await list_issues(owner=x)", "for i in list_issues.pages(owner='a'): print(i['id'])", "x['missing']", "x.id"),
    *("def f(a, *b, c=1, **d): return f", "class A: x: int = 1", "async def g(): await g()", "lambda: (yield)"),
    *("if __name__ == '__main__': main()", "while True: pass", "while x: x()", "exit()", "raise SystemExit", "1/0"),
    *("try: f()\nexcept Exception: pass\nfinally: g()", "with open('/etc/x') as f: f.read()", "return 1", "yield x"),
    *("match x:\n case {'a': [b, *c]}: pass\n case _: pass", "del x", "global x", "x: 'int' = 1", "@f\ndef g(): pass"),
    *("asyncio.run(main())", "import asyncio; asyncio.gather(*[list_issues(owner=o) for o in x])", "f'{x!r:>{y}}'"),
    *("results['x7f3a9c21b04']", "results.last", "show(x)", "eval('1')", "__import__('os')", "(x := 1)", "a = b = c"),
    *(
        "{**x, 'a': [*y]}",
        "x[1:2, ...]",
        "not-a-name",
        "from servers.github import (list_issues",
        "nonlocal y",
        "assert x",
    ),
)
lines = st.one_of(st.sampled_from(LINES), texts)
heads = st.sampled_from(["if x:", "def f():", "async def g():", "class A:", "for i in x:", "try:"])


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Lines, some of them in blocks."""
    written: list[str] = []
    indent = ""
    for line in draw(st.lists(lines, max_size=8)):
        written.append(indent + line.replace("\n", "\n" + indent))
        change = draw(st.integers(0, 5))
        if change == 0:
            written.append(indent + draw(heads))
            indent += "    "
        elif change == 1:
            indent = indent[4:]
    return "\n".join(written)


broken = damaged(programs().map(lambda code: code.encode("utf-8", "surrogatepass"))).map(
    lambda data: data.decode("utf-8", "replace")
)


@given(st.one_of(programs(), broken), st.none() | st.just(frozenset({"os", "json"})))
@example("from servers.github import list_issues\n" + "(" * 150 + ")" * 150, None)
@example("from servers.github import list_issues\n" + "-" * 20_000 + "1", None)
@example("servers" + "[" * 60_000, None)
@example("servers\n" + "x.a" + ".a" * 30_000, None)
@example("servers\nlist_issues(owner='\ud800')", None)
@example("servers\n" + "f(" * 190 + "1" + ")" * 190, None)
@example("from servers.github import list_issues\nx = " + "+".join(["list_issues(owner='a')"] * 900), None)
def test_any_program_is_read_without_a_fault(code: str, importable: frozenset[str] | None) -> None:
    reading = read(code)
    if reading is None:
        syntax_findings(code, CATALOG)
        return
    own = Findings(reading, CATALOG, CheckContext(importable, may_be_in_workspace=lambda name: True))
    assert all(finding.line >= 0 for finding in own.all())
    assert all(finding.line >= 0 for finding in result_findings(own))
