"""A setting that names a server which is not there holds for none: an error where data would be unprotected, else a
warning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.tables import rows, tables

if TYPE_CHECKING:
    from tests.config.conftest import Folder
TABLES = tables(__file__)

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


@pytest.mark.parametrize(("privacy", "key", "hint"), rows(TABLES["unmatched"]))
def test_what_leaves_nothing_unprotected_that_was_named_is_warned_of(
    folder: Folder, privacy: str, key: str, hint: str
) -> None:
    loaded = folder.load(f"{SERVERS}privacy: {{{privacy}}}")
    assert loaded.warnings == (f"upstream.yaml:2: privacy.{key}: matches no server{hint}",)


def test_where_no_server_is_configured_none_is_unprotected(folder: Folder) -> None:
    assert folder.load("privacy: {servers: {crm: tokens}}").warnings == ()


def test_a_guardrail_for_a_server_that_is_not_there_is_warned_of(folder: Folder) -> None:
    loaded = folder.load(f'{SERVERS}guardrails: [{{use: secrets, tools: ["crm/*", "git-hb/*"]}}]')
    assert loaded.warnings == ("upstream.yaml:2: guardrails[0].tools[1]: matches no server; did you mean 'git-hub'?",)


def test_a_flow_between_servers_that_are_not_there_is_warned_of_and_one_between_labels_is_not(folder: Folder) -> None:
    rules = "[{from: crmm, to: git-hub}, {from: private, to: public-sink}, {from: own, to: crm/get_*}]"
    servers = 'servers: {crm: {command: x, labels: {"*": [own]}}, git-hub: {command: x}}\n'
    loaded = folder.load(f"{servers}permissions: {{flows: {{rules: {rules}}}}}")
    assert loaded.warnings == (
        "upstream.yaml:2: permissions.flows.rules[0].from: matches no server; did you mean 'crm'?",
    )
