"""Tools that the permissions refuse: the model sees that and the rule before it writes a program, and a program that
calls one is refused before it has changed anything."""

from __future__ import annotations

from pathlib import Path

from .product import configuration, in_memory, office

RULES = [
    {"deny": "github/create_issue", "reason": "read only on Fridays"},
    {"ask": "github/b*"},
]
RULE = "rule 1 of permissions.rules (deny: github/create_issue): read only on Fridays"


async def test_they_are_marked_with_the_rule_and_a_program_is_refused_before_its_first_call(tmp_path: Path) -> None:
    path = configuration(tmp_path, office(tmp_path, "github"), permissions={"rules": RULES})
    async with in_memory(path) as host:
        head, *lines = (await host.call("list_dir", path="/servers/github")).text.split("\n")
        assert f" · 1 not permitted: {RULE} · " in f"{head} · "
        marked = [line.split()[0] for line in lines if line.endswith("[not permitted]")]
        assert marked == ["create_issue.py"]
        assert [line.split()[0] for line in lines if line.endswith("asks the user first)")] == ["boom.py"]

        first = (await host.call("read_tool", path="github.create_issue")).text.split("\n")[0]
        assert first == f"# /servers/github/create_issue.py · is not permitted: {RULE}"
        assert "permitted" not in (await host.call("read_tool", path="github.list_issues")).text, "control"

        first = (await host.call("read_tool", path="github.boom")).text.split("\n")[0]
        assert first.endswith(" · asks the user first")

        named = await host.call("search_tools", query="boom", detail_level="name_only")
        assert "github.boom  [asks the user first]" in named.text
        found = await host.call("search_tools", query="create an issue in a repository")
        assert f"[not permitted: {RULE}]" in found.text
        marks = {tool["name"]: tool.get("unavailable") for tool in found.content["tools"]}
        assert marks["create_issue"] == f"is not permitted: {RULE}"
        assert marks["list_issues"] is None, "control"
        named = await host.call("search_tools", query="create_issue", detail_level="name_only")
        assert f"github.create_issue  [is not permitted: {RULE}]" in named.text

        imported = "from servers.github import create_issue, list_issues\nlist_issues(repo='r')\n"
        call = "create_issue(owner='o', repo='r', title='t')"
        refused = await host.run(imported + call)
        assert f"not run:\nline 3: github.create_issue is not permitted: {RULE}." in refused.error["message"]
        assert host.reached() == []
        caught = await host.run(f"{imported}try:\n    {call}\nexcept ToolError as error:\n    print(error)")
        assert RULE in caught.content["stdout"]
        assert [called["tool"] for called in host.reached()] == ["list_issues"], "control"
