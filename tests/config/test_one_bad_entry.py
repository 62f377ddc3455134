"""A mistake in one server's entry turns off that server alone; a mistake in what limits programs refuses the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codemode_server.domain.errors import SettingsError

if TYPE_CHECKING:
    from tests.config.conftest import Folder

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
            "bad: {url: 'unix:///x'}",
            "upstream.yaml:3: servers.bad.url: must begin with http:// or https:// and name a host",
        ),
        (
            "bad: {command: x, tools: {exclude: ['[']}}",
            "upstream.yaml:3: servers.bad.tools.exclude[0]: the glob has an unclosed bracket",
        ),
        (
            "bad: {command: x, command: y}",
            "upstream.yaml:3: servers.bad.command: stands twice, first on line 3; keep one",
        ),
        ("bad: text", "upstream.yaml:3: servers.bad: must be a mapping, not text; write `key: value` lines"),
    ],
)
def test_a_mistake_in_one_server_turns_off_that_server_alone_with_its_reason(
    folder: Folder, entry: str, reason: str
) -> None:
    loaded = folder.load(f"servers:\n  {GOOD}\n  {entry}\n")
    assert list(loaded.settings.servers) == ["good"]
    assert loaded.invalid_servers == {"bad": (reason,)}


@pytest.mark.parametrize(
    "section",
    [
        "permissions: {default: dney}",
        "permissions: {rules: [{dney: good}]}",
        "permissions: {default: '${NOT_SET}'}",
        "limits: {calls: many}",
        "sandbox: {require: microvn}",
        "sandbox: []",
        "permision: {default: deny}",
        "servers: {other: {command: y}}",
    ],
)
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
