"""Mistakes in `upstream.yaml` are refused with the line, the key and the nearest name, all at once. A mistake in one
server's entry turns off that server alone; one in what limits programs refuses the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codemode_server.domain.errors import SettingsError
from tests.tables import rows, tables

if TYPE_CHECKING:
    from tests.config.conftest import Folder

TABLES = tables(__file__)


def test_an_unknown_key_is_told_with_its_line_and_what_was_meant(folder: Folder) -> None:
    assert folder.refusal(
        """
        servers:
          github:
            comand: npx
        """
    ) == ["upstream.yaml:3: servers.github.comand: unknown key; did you mean 'command'?"]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(folder: Folder) -> None:
    case = TABLES["all_at_once"]
    assert folder.refusal(case["text"]) == case["lines"]


@pytest.mark.parametrize(("server", "told"), rows(TABLES["servers"]))
def test_a_mistake_in_a_server_is_one_sentence_on_its_line(folder: Folder, server: str, told: str) -> None:
    assert folder.refusal(f"servers:\n  s: {server}\n") == [f"upstream.yaml{told}"]


@pytest.mark.parametrize("section", ["servers: hello", 'servers: "${HOME}"', "servers: ['${HOME}']"])
def test_servers_that_are_no_mapping_are_a_mistake_on_their_line(folder: Folder, section: str) -> None:
    told = "a list" if "[" in section else "text"
    assert folder.refusal(f"permissions: {{}}\n{section}\n", env={"HOME": "/home/m"}) == [
        f"upstream.yaml:2: servers: must be a mapping, not {told}"
    ]


def test_a_file_with_a_hundred_mistakes_tells_fifty_and_counts_the_rest(folder: Folder) -> None:
    lines = folder.refusal("\n".join(f"wrong{number}: 1" for number in range(100)))
    assert len(lines) == 51
    assert lines[-1] == "upstream.yaml: and 50 more problems"


@pytest.mark.parametrize(("rule", "told"), rows(TABLES["rules"]))
def test_a_mistake_in_a_rule_is_one_sentence_on_its_line(folder: Folder, rule: str, told: str) -> None:
    assert folder.refusal(f"permissions:\n  rules:\n    - {rule}\n") == [f"upstream.yaml{told}"]


@pytest.mark.parametrize(("line", "told"), rows(TABLES["packages"]))
def test_a_mistake_in_the_packages_is_one_sentence_on_its_line(folder: Folder, line: str, told: str) -> None:
    assert folder.refusal(f"sandbox:\n  {line}\n") == [f"upstream.yaml:2: sandbox.packages{told}"]


def test_packages_are_at_most_fifty_and_may_have_extras_and_versions(folder: Folder) -> None:
    names = [*(f"p{number}" for number in range(49)), "p[extra]>=2,<3"]
    loaded = folder.load(f"sandbox:\n  packages: {names}\n  packages_lock: locks/pylock.more.toml\n")
    assert list(loaded.settings.sandbox.packages) == names
    assert loaded.settings.sandbox.packages_lock == str(folder.path / "locks" / "pylock.more.toml")
    assert folder.refusal(f"sandbox:\n  packages: {[*names, 'more']}\n") == [
        "upstream.yaml:2: sandbox.packages: has too many items: at most 50"
    ]


def test_a_rule_with_everything_is_understood(folder: Folder) -> None:
    rule = "{ask: s*/create_*, effect: write, when: 'args.n < 5', limit: 5/hour, reason: why}"
    (found,) = folder.load(f"permissions:\n  rules:\n    - {rule}\n").settings.permissions.rules
    assert found.text == "ask: s*/create_*, effect: write, when: args.n < 5, limit: 5/hour"
    assert found.reason == "why"


GOOD = "good: {command: x}"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (
            "bad: {command: x, env: {T: '${NOT_SET}'}}",
            "upstream.yaml:3: servers.bad.env.T: NOT_SET is not set; set it in the environment or in .env beside the "
            "file, or write ${NOT_SET:-default}",
        ),
        ("bad: {comand: x}", "upstream.yaml:3: servers.bad.comand: unknown key; did you mean 'command'?"),
        (
            "bad: {command: x, command: y}",
            "upstream.yaml:3: servers.bad.command: stands twice, first on line 3; keep one",
        ),
        ("bad: text", "upstream.yaml:3: servers.bad: must be a mapping, not text"),
    ],
)
def test_a_mistake_in_one_server_turns_off_that_server_alone_with_its_reason(
    folder: Folder, entry: str, reason: str
) -> None:
    loaded = folder.load(f"servers:\n  {GOOD}\n  {entry}\n")
    assert list(loaded.settings.servers) == ["good"]
    assert loaded.invalid_servers == {"bad": (reason,)}


@pytest.mark.parametrize("section", rows(TABLES["sections"]))
def test_a_mistake_outside_the_servers_refuses_the_whole_file(folder: Folder, section: str) -> None:
    """What limits programs must never be skipped."""
    with pytest.raises(SettingsError):
        folder.load(f"servers: {{{GOOD}}}\n{section}\n")
    assert list(folder.load(f"servers: {{{GOOD}}}\n").settings.servers) == ["good"], "the rest of the file is right"


def test_a_rule_for_a_server_that_is_off_is_no_mistake(folder: Folder) -> None:
    loaded = folder.load(
        f"""
        servers:
          {GOOD}
          bad: {{comand: x}}
        permissions: {{rules: [{{deny: "bad/*"}}]}}
        """
    )
    assert loaded.warnings == ()
    assert loaded.settings.permissions.rules[0].deny == "bad/*"


SERVERS = 'servers: {crm: {command: x}, "git-hub": {command: x}}\n'


@pytest.mark.parametrize("mode", ["tokens", "block"])
def test_a_protected_server_that_is_not_there_is_refused_with_the_one_that_was_meant(folder: Folder, mode: str) -> None:
    assert folder.refusal(f"{SERVERS}privacy:\n  servers:\n    crmm: {mode}\n") == [
        "upstream.yaml:4: privacy.servers.crmm: protects nothing, since no server has this name; did you mean 'crm'? "
        "If the server is gone, remove the line"
    ]
    assert folder.load(f"{SERVERS}privacy: {{servers: {{crm: {mode}}}}}").warnings == (), "control"


@pytest.mark.parametrize(("above", "name"), [("'*'", "crm"), ("'c*'", "crm"), ("crm", '"cr?"')])
def test_a_server_that_a_glob_above_leaves_unprotected_is_refused(folder: Folder, above: str, name: str) -> None:
    lines = folder.refusal(f"{SERVERS}privacy:\n  servers:\n    {above}: values\n    {name}: tokens\n")
    assert lines == [
        f"upstream.yaml:5: privacy.servers.{name}: protects nothing, since {above.replace(chr(39), '')!r} above it "
        "decides first; move this line above that one"
    ]
    ordered = folder.load(f"{SERVERS}privacy:\n  servers:\n    {name}: tokens\n    {above}: values\n")
    assert ordered.warnings == (), "control"


@pytest.mark.parametrize("entry", ["{command: x, enabled: false}", "{comand: x}", "{disabled: true}"])
def test_a_server_that_is_disabled_or_has_a_mistake_is_there(folder: Folder, entry: str) -> None:
    loaded = folder.load(f"mcpServers: {{crm: {entry}, web: {{command: x}}}}\nprivacy: {{servers: {{crm: tokens}}}}")
    assert not [line for line in loaded.warnings if "privacy" in line]


@pytest.mark.parametrize(("section", "key", "meant"), rows(TABLES["unmatched"]))
def test_what_names_a_server_that_is_not_there_is_warned_of(folder: Folder, section: str, key: str, meant: str) -> None:
    """A `deny`, for instance, protects nothing then, which nobody would notice. Labels and globs are no mistakes."""
    loaded = folder.load(f"{SERVERS}{section}")
    assert loaded.warnings == (f"upstream.yaml:2: {key}: matches no server; did you mean {meant!r}?",)


def test_where_no_server_is_configured_none_is_unprotected(folder: Folder) -> None:
    assert folder.load("privacy: {servers: {crm: tokens}}").warnings == ()
