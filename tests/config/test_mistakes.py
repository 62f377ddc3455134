"""Mistakes in `upstream.yaml` are refused with the line, the key and the nearest name, all at once. A mistake in one
server's entry turns off that server alone; one in what limits programs refuses the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codemode_server.domain.errors import SettingsError

if TYPE_CHECKING:
    from tests.config.conftest import Folder


def test_an_unknown_key_is_told_with_its_line_and_what_was_meant(folder: Folder) -> None:
    assert folder.refusal(
        """
        servers:
          github:
            comand: npx
        """
    ) == ["upstream.yaml:3: servers.github.comand: unknown key; did you mean 'command'?"]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(folder: Folder) -> None:
    assert folder.refusal(
        """
        servers:
          github:
            comand: npx
            args: --foo
            tools:
              include: ["[a"]
          bad name:
            url: https://x
          web:
            url: ftp://x
            transport: sss
            timeout: yes
        permissions:
          default: dney
          rules:
            - deny: "github/*"
              allow: x
            - dney: y
            - deny: "a/b/c"
        limits:
          memory: 1
          calls: -1
        sandbox: []
        foo: 1
        limits:
          calls: 2
        """
    ) == [
        "upstream.yaml:3: servers.github.comand: unknown key; did you mean 'command'?",
        "upstream.yaml:4: servers.github.args: must be a list, not text; write `- ` before each item",
        "upstream.yaml:6: servers.github.tools.include[0]: the glob has an unclosed bracket",
        'upstream.yaml:7: servers."bad name": a server\'s name is up to 64 letters, digits, `.`, `_` and `-`, '
        "the first a letter or digit",
        "upstream.yaml:10: servers.web.url: must begin with http:// or https:// and name a host",
        "upstream.yaml:11: servers.web.transport: must be one of 'http', 'sse'; did you mean 'sse'?",
        "upstream.yaml:12: servers.web.timeout: must be a number, not true or false",
        "upstream.yaml:14: permissions.default: must be one of 'allow', 'deny', 'ask'; did you mean 'deny'?",
        "upstream.yaml:16: permissions.rules[0]: give exactly one of `allow`, `deny`, `ask`, `decision`",
        "upstream.yaml:18: permissions.rules[1].dney: unknown key; did you mean 'deny'?",
        "upstream.yaml:19: permissions.rules[2].deny: is not of the form `server/tool` or `server`",
        "upstream.yaml:21: limits.memory: unknown key; did you mean 'memory_mb'?",
        "upstream.yaml:22: limits.calls: must be at least 0",
        "upstream.yaml:23: sandbox: must be a mapping, not a list; write `key: value` lines",
        "upstream.yaml:24: foo: unknown key; there are "
        "servers, principal, groups, http, sandbox, permissions, approvals, pages, guardrails, privacy, limits, "
        "tracing, metrics, search, types, results, skills, state",
        "upstream.yaml:25: limits: stands twice, first on line 20; keep one",
    ]


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("{}", ":2: servers.s: give either `command` (a program to start) or `url` (a server that runs already)"),
        ("{command: x, transport: sse}", ":2: servers.s.transport: has no meaning beside `command`"),
        ("{url: 'http://y', args: [a]}", ":2: servers.s.args: has no meaning beside `url`"),
        ("{command: [npx, -y]}", ":2: servers.s.command: must be text, not a list"),
        ("{command: x, enabled: maybe}", ":2: servers.s.enabled: must be true or false, not text"),
        ("{command: x, timeout: 0}", ":2: servers.s.timeout: must be more than 0"),
        ("{command: x, env: [A]}", ":2: servers.s.env: must be a mapping, not a list; write `key: value` lines"),
        (
            "{command: x, env: {A: }}",
            ':2: servers.s.env.A: must be text, and nothing stands here; write "" if it is empty, `"~"` for a tilde',
        ),
        ("{command: x, env: {A=B: c}}", ':2: servers.s.env."A=B": is not the name of an environment variable'),
        (
            r'{url: "http://y", headers: {A: "b\nc"}}',
            ":2: servers.s.headers.A: holds a line break, which an HTTP header can't",
        ),
        ("{command: x, disabled: true}", ":2: servers.s.disabled: unknown key; did you mean 'enabled'?"),
        (
            "{command: x, qqq: 1}",
            ":2: servers.s.qqq: unknown key; there are command, args, env, cwd, url, transport, "
            "headers, headers_command, oauth, questions, protocol, enabled, per_principal, timeout, tools, expose, "
            "direct, effects, labels, description, elicitation, sampling, roots",
        ),
        (
            "{command: x, tools: {exclude: ['{a,b}']}}",
            ":2: servers.s.tools.exclude[0]: globs know `*`, `?` and `[…]`, no "
            "braces; write one glob for each alternative",
        ),
        (
            "{command: x, tools: {exclude: ['[z-a]']}}",
            ":2: servers.s.tools.exclude[0]: the glob has a range that matches nothing: from 'z' down to 'a'",
        ),
        ("x", ":2: servers.s: must be a mapping, not text; write `key: value` lines"),
    ],
)
def test_a_mistake_in_a_server_is_one_sentence_on_its_line(folder: Folder, server: str, told: str) -> None:
    assert folder.refusal(f"servers:\n  s: {server}\n") == [f"upstream.yaml{told}"]


def test_a_file_with_a_hundred_mistakes_tells_fifty_and_counts_the_rest(folder: Folder) -> None:
    lines = folder.refusal("\n".join(f"wrong{number}: 1" for number in range(100)))
    assert len(lines) == 51
    assert lines[-1] == "upstream.yaml: and 50 more problems"


def test_a_rule_for_a_server_that_is_not_there_is_warned_of(folder: Folder) -> None:
    """Such a `deny` protects nothing, which nobody would notice."""
    loaded = folder.load(
        """
        servers:
          git-hub: {command: x}
        permissions:
          rules:
            - deny: "githb/*"
            - deny: "git_hub/*"
            - deny: "*/delete_*"
        """
    )
    assert loaded.warnings == (
        "upstream.yaml:5: permissions.rules[0].deny: matches no server; did you mean 'git-hub'?",
    )


RULE = ":3: permissions.rules[0]"


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (
            "{allow: a, when: arg.x}",
            f"{RULE}.when: is not a condition in CEL: at character 4: undeclared reference to 'arg.x'",
        ),
        ("{allow: a, when: args}", f"{RULE}.when: must be true or false, and gives map<string, dyn>"),
        ("{allow: a, limit: 10}", f"{RULE}.limit: must be text, not a number; put it in quotes"),
        (
            "{allow: a, limit: 10/fortnight}",
            f"{RULE}.limit: is not of the form `10/minute`; the times are second, minute, hour, day, execution",
        ),
        ("{deny: a, limit: 1/minute}", f"{RULE}.limit: has no meaning in a rule that denies"),
        ("{server: a}", f"{RULE}: give exactly one of `allow`, `deny`, `ask`, `decision`"),
        ("{deny: a, tool: b}", f"{RULE}.tool: belongs to a rule with `decision`; write `deny: server/tool`"),
        ("{decision: deny, tool: 'a b'}", f"{RULE}.tool: the glob contains white space"),
        (
            "{deny: a, effect: writes}",
            f"{RULE}.effect: must be one of 'read', 'write', 'destructive'; did you mean 'write'?",
        ),
    ],
)
def test_a_mistake_in_a_rule_is_one_sentence_on_its_line(folder: Folder, rule: str, told: str) -> None:
    assert folder.refusal(f"permissions:\n  rules:\n    - {rule}\n") == [f"upstream.yaml{told}"]


def test_a_rule_with_everything_is_understood(folder: Folder) -> None:
    rule = "{server: s*, tool: create_*, effect: write, when: 'args.n < 5', limit: 5/hour, decision: ask, reason: why}"
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
