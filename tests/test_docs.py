"""The documentation is true: links lead somewhere, examples load and run, commands, targets and stages exist."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from mcp.server.streamable_http_manager import DEFAULT_SESSION_IDLE_TIMEOUT

from codemode_server import __version__, cli, field_names, http_connections, json_size, logs, redaction
from codemode_server.config import load, secrecy
from codemode_server.domain import errors
from codemode_server.front import http, http_token, rendered_errors
from codemode_server.gateway import audit
from codemode_server.sandbox import frames, guest
from codemode_server.sandbox.backends.wasm import component
from codemode_server.search import usage_stats
from codemode_server.storage import listing_store, sqlite_history, sqlite_savings, upkeep
from codemode_server.upstreams import _listing, _messages
from codemode_server.web import admission
from tests import fork_server
from tests.behaviour.product import UPSTREAMS, configuration, in_memory

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
GUIDES = {path.stem: path.read_text() for path in sorted((ROOT / "docs" / "guides").glob("*.md"))}
SECURITY = " ".join(GUIDES["security"].split())
MIB, KIB = 2**20, 2**10
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))


def blocks(text: str, language: str) -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", text, flags=re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("https://", "http://")):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        assert place.is_relative_to(ROOT), target
        assert place.exists(), target
        if anchor:
            assert anchor in anchors(place), target


PROMISES = re.findall(r"^- .+ — `([\w/]+\.py)(?:::(\w+))?`$", (ROOT / "docs/promises.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize(("file", "name"), PROMISES)
def test_every_promise_has_its_test(file: str, name: str) -> None:
    assert re.search(rf"^ *(async )?def {name or 'test_'}", (ROOT / "tests" / file).read_text(), flags=re.MULTILINE)


def test_promises_fit_on_one_page() -> None:
    lines = [line for line in (ROOT / "docs/promises.md").read_text().splitlines() if line.startswith("- ")]
    assert len(lines) == len(PROMISES) <= 120


@pytest.mark.parametrize(
    "named", sorted(set(re.findall(r"`((?:[\w.-]+/)+(?:[\w.-]+\.\w+)?)`", ARCHITECTURE + CONTRIBUTING)))
)
def test_every_file_and_folder_that_is_named_is_there(named: str) -> None:
    assert any((base / named).exists() for base in (ROOT, ROOT / "codemode_server")), named


def test_the_hosts_configurations_start_the_command_with_a_file() -> None:
    found = [json.loads(block) for block in blocks(README + GUIDES["hosts"], "json")]
    assert [list(host) for host in found] == [["mcpServers"], ["servers"], ["mcpServers"]]
    for host in found[:2]:
        (servers,) = host.values()
        entry = servers["codemode"]
        assert entry["command"].endswith("/.venv/bin/codemode-server")
        assert entry["args"] == ["--config", "/path/to/upstream.yaml"]


def test_the_entry_for_http_has_the_address_and_the_header_of_the_command() -> None:
    (entry,) = json.loads(blocks(GUIDES["hosts"], "json")[2])["mcpServers"].values()
    (address,) = re.findall(r"^\| `codemode-server serve --http (\S+)`", GUIDES["configuration"], flags=re.MULTILINE)
    assert entry == {"type": "http", "url": f"http://{address}/mcp", "headers": {"Authorization": "Bearer TOKEN"}}


@pytest.mark.parametrize(
    ("phrase", "numbers"),
    [
        (r"depth \((\d+)\) and values \(([\d,]+),", (frames.MAX_DEPTH, json_size.MAX_VALUES)),
        (r"never less than (\d+) MiB", (_messages.MAX_MESSAGE_BYTES // MIB,)),
        (r"more than ([\d,]+) values or nested more than (\d+) deep", (json_size.MAX_VALUES, _messages.MAX_DEPTH)),
        (r"the first ([\d,]+), and (\d+) MiB", (_listing.MAX_TOOLS, _listing.MAX_LISTING_CHARACTERS // MIB)),
        (r"a list of more than (\d+) MiB is not stored", (listing_store.MAX_LISTING_CHARACTERS // MIB,)),
        (r"What has fewer than (\d+) characters", (secrecy.MIN_LENGTH,)),
        (r"than (\d+) characters, or fewer than (\d+) if all", (secrecy._SAFE_LENGTH, secrecy._SAFE_DIGITS)),
        (r"at most (\d+) KiB of a call's arguments", (redaction.MAX_PAYLOAD_BYTES // KIB,)),
        (
            r"(\d+) KiB of a program and (\d+) KiB of an error",
            (audit.MAX_CODE_CHARACTERS // KIB, audit.MAX_ERROR_CHARACTERS // KIB),
        ),
        (r"not used for (\d+) days or more", (min(days for *_, days in upkeep.CACHES),)),
        (r"not used for (\d+) days \(for one", (component._UNUSED_SECONDS / 86_400,)),
        (r"the newest ([\d,]+) exchanges", (sqlite_savings.MAX_EXCHANGES,)),
        (r"and for (\d+) tools at most", (usage_stats._MAX_AT_ONCE,)),
        (r"at most (\d+) words and (\d+) characters", (field_names._MAX_WORDS, field_names._MAX_CHARACTERS)),
        (r"The token is (\d+) random bytes", (http_token._BYTES,)),
        (r"a secret of (\d+) random bytes that admits one browser", (admission._BYTES,)),
        (
            r"no request within (\d+) seconds; of more than (\d+)",
            (http_connections.HEADER_SECONDS, http_connections.MAX_CONNECTIONS),
        ),
        (r"at most (\d+) MiB with ([\d,]+) JSON", (http.MAX_BODY_BYTES // MIB, http.MAX_BODY_VALUES)),
        (r"its body (\d+) seconds", (http.BODY_SECONDS,)),
        (
            r"at most (\d+) sessions; idle ones end after (\d+) minutes",
            (http.MAX_SESSIONS, DEFAULT_SESSION_IDLE_TIMEOUT / 60),
        ),
        (r"log (\d+) records a minute, all together (\d+)", (logs._MAX_RECORDS_OF_A_LINE, logs._MAX_RECORDS)),
        (r"the files have (\d+) MiB together", (logs._FILE_BYTES * (1 + logs.OLD_FILES) // MIB,)),
    ],
)
def test_the_bounds_in_the_page_on_security_are_those_of_the_code(phrase: str, numbers: tuple[float, ...]) -> None:
    (found,) = re.finditer(phrase, SECURITY)
    assert tuple(float(number.replace(",", "")) for number in found.groups()) == numbers


def test_the_bounds_in_the_page_on_the_local_pages_are_those_of_the_code() -> None:
    page = " ".join(GUIDES["page"].split())
    assert f"looks at {sqlite_history.MAX_EXAMINED:,} executions at a time" in page
    assert f"the newest {sqlite_history.MAX_COUNTED_ROWS:,} rows of the audit" in page


def test_the_example_of_the_configuration_loads(tmp_path: Path) -> None:
    (example,) = blocks(README, "yaml")
    (tmp_path / "upstream.yaml").write_text(example)
    loaded = load(tmp_path / "upstream.yaml", environ={"LINEAR_TOKEN": "lin_0123456789"}, cwd=tmp_path)
    assert loaded.warnings == ()
    settings = loaded.settings
    assert list(settings.servers) == ["git", "linear", "time"]
    assert settings.servers["linear"].headers == {"Authorization": "Bearer lin_0123456789"}
    assert settings.permissions.rules[0].deny == "git/git_reset"
    assert settings.limits.memory_mb == 256


COMMANDS = re.findall(r"^\| `codemode-server ?([^`]*)` \|", GUIDES["configuration"], flags=re.MULTILINE)


def test_the_table_of_commands_is_the_commands_there_are() -> None:
    told = {command.split()[0] for command in COMMANDS if command}
    assert told == set(cli._COMMANDS)


def test_the_examples_of_secrets_load_once_their_secrets_are_there(tmp_path: Path) -> None:
    from codemode_server.secrets import commands
    from codemode_server.secrets.encrypted_files import EncryptedFileStore
    from codemode_server.secrets.keyring_store import MAX_CHARACTERS
    from codemode_server.upstreams.auth import command_headers

    references, headers = blocks(GUIDES["secrets"], "yaml")
    (tmp_path / "pass").write_text("#!/bin/sh\necho lin_0123456789")
    (tmp_path / "pass").chmod(0o755)
    EncryptedFileStore(tmp_path / "state").set("github", "ghp_0123456789")
    file = tmp_path / "upstream.yaml"
    file.write_text(references + "state: {dir: state}\n")
    servers = load(file, environ={"PATH": f"{tmp_path}:/usr/bin:/bin"}, cwd=tmp_path).settings.servers
    assert servers["github"].env == {"GITHUB_TOKEN": "ghp_0123456789"}
    assert servers["linear"].headers == {"Authorization": "Bearer lin_0123456789"}
    file.write_text(headers)
    (warehouse,) = load(file, environ={}, cwd=tmp_path).settings.servers.values()
    assert warehouse.headers_command == f"{tmp_path}/print-headers --audience warehouse"
    text = " ".join(GUIDES["secrets"].split())
    assert f"more than {MAX_CHARACTERS:,} characters" in text
    assert f"{commands.COMMAND_S:g} seconds and print {commands.MAX_OUTPUT_BYTES // KIB} KiB" in text
    assert f"at most every {command_headers._AGAIN_S:g} seconds" in text


def test_the_settings_of_the_sandbox_that_are_named_are_the_ones_there_are() -> None:
    from codemode_server.settings import SandboxSettings

    table = GUIDES["sandbox"].split("| `sandbox.` | |\n")[1].split("\n\n")[0]
    named = re.findall(r"`(\w+)(?:: \w+)?`", "\n".join(row.split("|")[1] for row in table.split("\n")))
    assert sorted(named) == sorted(SandboxSettings.model_fields)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_is_named_exists(command: str) -> None:
    done = subprocess.run(
        fork_server.command("-m", "codemode_server", *command.split(), "--help"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: codemode-server")


TARGETS = set(re.findall(r"^([a-z][\w%-]*):(?!=)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`?make ([a-z][a-z-]*)", README + CONTRIBUTING))))
def test_every_target_that_is_named_is_in_the_makefile(target: str) -> None:
    assert target in TARGETS or (target.startswith("bench-") and "bench-%" in TARGETS)


def test_contributing_has_every_target() -> None:
    named = set(re.findall(r"^make ([\w-]+)", CONTRIBUTING, flags=re.MULTILINE))
    assert {target for target in TARGETS if not target.startswith("bench-")} <= named


def test_the_table_of_stages_is_the_folders_there_are() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", ARCHITECTURE, flags=re.MULTILINE)
    told = {name.rstrip("/") for row in rows for name in re.findall(r"`([^`]+)`", row)}
    package = ROOT / "codemode_server"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    assert {name for name in told if not name.endswith(".py")} == folders
    assert all((package / name).exists() for name in told)


def test_the_stages_stand_in_the_order_in_which_they_may_import() -> None:
    from tests.test_architecture import STAGES

    rows = re.findall(r"^\| `(\w+)/`", ARCHITECTURE, flags=re.MULTILINE)
    assert [name for name in rows if name in STAGES] == list(STAGES)


def rows_of_errors(title: str) -> set[str]:
    """The first column of the table with this title."""
    page = (ROOT / "docs" / "errors.md").read_text()
    (table,) = re.findall(rf"^\| `{title}` \|.*\n\|---.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    return set(re.findall(r"^\| `([\w.]+)`", table, re.MULTILINE))


def below(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*map(below, kind.__subclasses__()))


def kinds_of_the_guest() -> set[str]:
    """Those that it gives a `ToolError` by itself."""
    texts = [path.read_text() for path in Path(guest.__path__[0]).glob("*.py")]
    made = [
        node
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ToolError"
    ]
    given = [*(it.args[3] for it in made if len(it.args) > 3), *(word.value for it in made for word in it.keywords)]
    return {it.value for it in given if isinstance(it, ast.Constant) and isinstance(it.value, str)}


def test_the_kinds_of_errors_that_programs_can_catch_are_those_of_the_code() -> None:
    kinds = {kind.code for kind in below(errors.CallError)}  # type: ignore[attr-defined]
    assert rows_of_errors("kind") == kinds | kinds_of_the_guest()
    assert {"pages", "too_many_values"} <= kinds_of_the_guest(), "the control"


def test_the_types_of_errors_that_end_a_program_are_those_of_the_code() -> None:
    kinds = below(errors.ExecutionError) | below(errors.JournalUnavailable) | below(errors.SandboxUnavailable)
    named = {it.__name__ for it in kinds - {errors.ExecutionError} if it.__module__ == errors.__name__}
    assert rows_of_errors("type") == named | {"CheckFailed", "Cancelled", "GuardrailBlocked", "ResultWithheld"}
    assert rows_of_errors("setting") == {*rendered_errors._REMEDIES, "limits.programs", "limits.principal_programs"}


def test_an_error_of_a_part_of_its_own_is_told_as_the_documented_one() -> None:
    from codemode_server.executions.runner import _not_run
    from codemode_server.sandbox.backends.microvm.machine import BootFailed

    error = _not_run(BootFailed("no kernel"))[1].error
    assert error is not None
    assert error.type == "SandboxUnavailable"


async def test_the_example_of_what_a_model_does_runs(tmp_path: Path) -> None:
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


def test_the_changelog_has_something_on_this_version() -> None:
    titles = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert {"Unreleased", __version__} & set(titles)


def test_the_glossary_s_words_for_states_are_those_of_the_code() -> None:
    from codemode_server.domain.calls import Decision

    (decision,) = re.findall(
        r"^\| \*\*decision\*\* \| (.*) \|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE
    )
    assert all(kind in decision for kind in (*(one.kind for one in get_args(Decision)), "reason"))
