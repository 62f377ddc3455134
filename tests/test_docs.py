"""The documentation is true: links lead somewhere, examples load and run, commands and targets exist."""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from codemode_server import __version__, cli
from codemode_server.config import load
from codemode_server.domain import errors
from codemode_server.sandbox import guest
from scripts import write_reference
from tests.behaviour.product import UPSTREAMS, configuration, in_memory
from tests.test_architecture import STAGES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
DOCS = {path.stem: path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
PAGES = {"README": README, "CONTRIBUTING": CONTRIBUTING, **DOCS}


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def path_of(page: str) -> Path:
    return ROOT / f"{page}.md" if page.isupper() else ROOT / "docs" / f"{page}.md"


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


class TestPages:
    @pytest.mark.parametrize("page", PAGES)
    def test_every_link_leads_somewhere(self, page: str) -> None:
        for target in re.findall(r"\]\(([^)\s]+)\)", PAGES[page]):
            if target.startswith(("https://", "http://")):
                continue
            name, _, anchor = target.partition("#")
            place = (path_of(page).parent / name).resolve() if name else path_of(page)
            assert place.is_relative_to(ROOT), target
            assert place.exists(), target
            if anchor:
                assert anchor in anchors(place), target

    def test_they_are_few_and_short(self) -> None:
        assert len(DOCS) <= 14
        assert sum(len(text.split()) for text in DOCS.values()) <= 12_000

    def test_the_generated_ones_are_up_to_date(self) -> None:
        """If this fails: `python -m scripts.write_reference`."""
        for name, text in write_reference.pages().items():
            assert (ROOT / "docs" / name).read_text() == text, name

    @pytest.mark.parametrize(
        "named",
        sorted(set(re.findall(r"`((?:[\w.-]+/)+(?:[\w.-]+\.\w+)?)`", DOCS["architecture"] + CONTRIBUTING))),
    )
    def test_every_file_and_folder_that_is_named_exists(self, named: str) -> None:
        assert any((base / named).exists() for base in (ROOT, ROOT / "codemode_server")), named

    def test_the_table_of_stages_has_the_folders_in_the_order_in_which_they_may_import(self) -> None:
        rows = re.findall(r"^\| `(\w+)/`", DOCS["architecture"], flags=re.MULTILINE)
        assert [name for name in rows if name in STAGES] == list(STAGES)
        folders = {path.parent.name for path in (ROOT / "codemode_server").glob("*/__init__.py")}
        assert set(rows) >= folders

    def test_the_changelog_has_something_on_this_version(self) -> None:
        assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


PROMISES = re.findall(r"^- .+ \(`([\w/]+\.py)(?:::(\w+))?`\)$", DOCS["promises"], re.MULTILINE)


class TestPromises:
    @pytest.mark.parametrize(("file", "name"), PROMISES)
    def test_every_promise_has_its_test(self, file: str, name: str) -> None:
        assert re.search(rf"^ *(async )?def {name or 'test_'}", (ROOT / "tests" / file).read_text(), re.MULTILINE)

    def test_they_fit_on_one_page(self) -> None:
        lines = [line for line in DOCS["promises"].splitlines() if line.startswith("- ")]
        assert len(lines) == len(PROMISES) <= 120


COMMANDS = [
    line
    for text in PAGES.values()
    for block in blocks(text, "sh")
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("codemode-server ")
]


class TestCommands:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_that_is_shown_is_understood(self, command: str) -> None:
        words = shlex.split(command.partition(" > ")[0], comments=True)[1:]
        cli.whole_parser().parse_args(words[: words.index("--")] if "--" in words else words)

    def test_an_unknown_option_would_be_noticed(self) -> None:
        """The control."""
        assert len(COMMANDS) > 30
        with pytest.raises(SystemExit):
            cli.whole_parser().parse_args(["status", "--no-such-option"])

    def test_every_target_of_make_that_is_named_exists_and_contributing_has_all(self) -> None:
        targets = set(re.findall(r"^([a-z][\w-]*):(?!=)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
        named = set(re.findall(r"^make ([\w-]+)", CONTRIBUTING, flags=re.MULTILINE))
        shown = set(re.findall(r"`?make ([a-z][a-z-]*)", README + CONTRIBUTING))
        assert {name for name in shown if not name.startswith("bench-")} <= targets
        assert {name for name in targets if not name.startswith("bench-")} <= named


def settings_of(block: str, folder: Path) -> Any:
    """The settings of an example, with a server for those that name none."""
    (folder / "upstream.yaml").write_text(block)
    environment = {"LINEAR_TOKEN": "lin_0123456789", "REPORTS_SECRET": "rep_0123456789", "HTTPS_PROXY": "http://p:1"}
    environment["CODEMODE_NODE_TOKEN"] = "0123456789abcdef"
    return load(folder / "upstream.yaml", environ=environment, cwd=folder).settings


CONFIGURATIONS = [
    pytest.param(block, id=f"{page}-{number}")
    for page, text in PAGES.items()
    for number, block in enumerate(blocks(text, "yaml"))
    if YAML(typ="safe").load(block).__class__ is dict and "steps" not in block
]


class TestExamples:
    @pytest.mark.parametrize("block", CONFIGURATIONS)
    def test_a_configuration_loads(self, block: str, tmp_path: Path) -> None:
        """A block that protects servers, or names them in rules, gets a server of each name."""
        content = YAML(typ="safe").load(block)
        protected = [name.replace("*", "x") for name in content.get("privacy", {}).get("servers", {})]
        missing = [name for name in protected if name not in content.get("servers", {})]
        if missing:
            block += "servers:\n" + "".join(f"  {name}: {{command: x}}\n" for name in missing)
        assert settings_of(block, tmp_path) is not None

    def test_the_configuration_of_the_readme_means_what_it_says(self, tmp_path: Path) -> None:
        settings = settings_of(blocks(README, "yaml")[0], tmp_path)
        assert list(settings.servers) == ["git", "linear", "time"]
        assert settings.servers["linear"].headers == {"Authorization": "Bearer lin_0123456789"}
        assert settings.permissions.rules[0].deny == "git/git_reset"
        assert settings.limits.memory_mb == 256

    def test_the_entries_for_hosts_have_the_key_that_hosts_read(self) -> None:
        found = [json.loads(block) for block in blocks(DOCS["start"], "json")]
        assert [list(host) for host in found] == [["mcpServers"], ["mcpServers"]]

    async def test_what_a_model_does_in_the_readme_runs(self, tmp_path: Path) -> None:
        (example,) = blocks(README, "python")
        program = re.search(r'code="""\n(.*?)\n"""', example, flags=re.DOTALL)
        assert program
        git: dict[str, Any] = {"command": sys.executable, "args": [str(UPSTREAMS / "git.py")]}
        async with in_memory(configuration(tmp_path, {"git": git})) as host:
            found = await host.call("search_tools", query="commit history")
            assert "from servers.git import git_log" in found.text
            stub = (await host.call("read_tool", path="servers/git/git_log.py")).text
            assert "def git_log(repo_path: str, max_count: int = 10)" in stub
            answer = await host.run(program[1])
        assert answer.value == 41
        assert "Message:" not in answer.text


def below(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*map(below, kind.__subclasses__()))


def kinds_of_the_guest() -> set[str]:
    """The kinds that the guest gives a `ToolError` by itself."""
    made = [
        node
        for path in Path(guest.__path__[0]).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ToolError"
    ]
    given = [*(it.args[3] for it in made if len(it.args) > 3), *(word.value for it in made for word in it.keywords)]
    return {it.value for it in given if isinstance(it, ast.Constant) and isinstance(it.value, str)}


def test_the_kinds_of_errors_that_programs_can_catch_are_those_of_the_code() -> None:
    table = DOCS["programs"].split("| `kind` |")[1].split("\n\n")[0]
    named = {
        kind
        for row in table.splitlines()
        for kind in re.findall(r"`(\w+)`", row.split("|")[1:2][0] if "|" in row else "")
    }
    kinds = {kind.code for kind in below(errors.CallError)}  # type: ignore[attr-defined]
    assert named == (kinds | kinds_of_the_guest()) - {"call_failed"}
