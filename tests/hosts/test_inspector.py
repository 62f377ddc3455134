"""The official MCP Inspector as the host: it starts the product over stdio, as a host's configuration does.

Each test is one or more runs of `mcp-inspector --cli`, each of which starts the product, asks one thing and goes.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hosts.kit import ROOT, NodeTools, configured, forked_product, installed_command, reached

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(300)]

META_TOOLS = ["list_dir", "read_tool", "search_tools", "execute_code"]
OPEN_ISSUE = """
from servers.github import create_issue
create_issue(owner="acme", repo="shop", title="Bug")["url"]
"""
EACH_ERA = pytest.mark.parametrize("era", ["legacy", "modern"])


@dataclass(frozen=True)
class Inspector:
    """The Inspector, pointed at one product."""

    tools: NodeTools
    config: Path

    @property
    def folder(self) -> Path:
        return self.config.parent

    def ask(self, era: str, method: str, *options: str) -> subprocess.CompletedProcess[str]:
        product = (*forked_product(), "--config", str(self.config))
        return self.run("--protocol-era", era, "--method", method, *options, "--cwd", str(ROOT), "--", *product)

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        return self.tools.run(self.folder, "mcp-inspector", "--cli", *options)


@pytest.fixture
def inspector(node_tools: NodeTools, tmp_path: Path) -> Inspector:
    return Inspector(node_tools, configured(tmp_path, "github"))


@pytest.fixture
def acquainted(inspector: Inspector) -> Inspector:
    """With a product that has seen its upstreams before, so that the first answer knows their tools."""
    product = forked_product()
    subprocess.run((*product, "status", "--config", str(inspector.config)), cwd=ROOT, check=True, capture_output=True)
    return inspector


@EACH_ERA
def test_the_four_tools_are_listed_in_order_and_pass_the_portability_lint(inspector: Inspector, era: str) -> None:
    """`--strict` ends with 6 for a schema that some host can't take."""
    done = inspector.ask(era, "tools/list", "--strict")
    assert done.returncode == 0, done.stderr
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == META_TOOLS


def test_what_the_readme_tells_to_paste_works_as_it_is(acquainted: Inspector) -> None:
    """Started from a folder that is not the project's, as hosts do, with nothing but real paths put in."""
    pasted = acquainted.folder / "mcp.json"
    text = _readme_block('"mcpServers"')
    for placeholder, path in {
        "/path/to/codemode-server/.venv/bin/codemode-server": installed_command(acquainted.folder),
        "/path/to/upstream.yaml": acquainted.config,
    }.items():
        assert placeholder in text
        text = text.replace(placeholder, str(path))
    pasted.write_text(text)
    entry = ("--config", str(pasted), "--server", "codemode")
    listed = acquainted.run(*entry, "--method", "tools/list")
    assert listed.returncode == 0, listed.stderr
    assert [tool["name"] for tool in json.loads(listed.stdout)["tools"]] == META_TOOLS
    arguments = json.dumps({"code": OPEN_ISSUE})
    called = acquainted.run(
        *entry, "--method", "tools/call", "--tool-name", "execute_code", "--tool-args-json", arguments
    )
    assert json.loads(called.stdout)["structuredContent"]["value"] == "https://github.example/acme/shop/issues/1"
    assert [call["tool"] for call in reached(acquainted.folder)] == ["create_issue"]


def test_the_readme_gives_every_host_the_same_command() -> None:
    """The forms that the Inspector does not read say what the one that it reads says."""
    pasted = json.loads(_readme_block('"mcpServers"'))["mcpServers"]
    assert json.loads(_readme_block('"servers"'))["servers"] == {"codemode": {"type": "stdio", **pasted["codemode"]}}
    claude = shlex.split(_readme_block("claude mcp add"))
    assert claude[:6] == ["claude", "mcp", "add-json", "-s", "user", "codemode"]
    assert json.loads(claude[6]) == {**pasted["codemode"], "alwaysLoad": True}


def _readme_block(word: str) -> str:
    """The one fenced block of the README and the page on hosts with this word that starts the product over stdio."""
    pages = [(ROOT / name).read_text() for name in ("README.md", "docs/start.md")]
    blocks = re.findall(r"^ *```\w+\n(.*?)^ *```", "\n".join(pages), re.DOTALL | re.MULTILINE)
    (block,) = [block for block in blocks if word in block and '"command"' in block]
    return str(block)
