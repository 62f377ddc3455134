"""What a person gets wrong in `upstream.yaml` is refused with the line, the key and what was meant; all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
        (
            "{command: x, url: 'http://y'}",
            ":2: servers.s: give either `command` (a program to start) or `url` (a server that runs already)",
        ),
        ("{command: x, headers: {A: b}}", ":2: servers.s.headers: has no meaning beside `command`"),
        ("{command: x, transport: sse}", ":2: servers.s.transport: has no meaning beside `command`"),
        (
            "{command: x, transport: stdio}",
            ":2: servers.s.transport: leave it away for a `command`, which is always "
            "stdio; with `url` it is one of 'http', 'sse'",
        ),
        ("{url: 'http://y', args: [a]}", ":2: servers.s.args: has no meaning beside `url`"),
        ("{command: 42}", ":2: servers.s.command: must be text, not a number; put it in quotes"),
        ("{command: [npx, -y]}", ":2: servers.s.command: must be text, not a list"),
        ("{command: ''}", ":2: servers.s.command: must not be empty"),
        ("{command: x, enabled: maybe}", ":2: servers.s.enabled: must be true or false, not text"),
        ("{command: x, timeout: 0}", ":2: servers.s.timeout: must be more than 0"),
        ("{command: x, timeout: soon}", ":2: servers.s.timeout: must be a number, not text"),
        ("{command: x, timeout: .nan}", ":2: servers.s.timeout: must be more than 0"),
        ("{command: x, env: [A]}", ":2: servers.s.env: must be a mapping, not a list; write `key: value` lines"),
        (
            "{command: x, env: {A: }}",
            ':2: servers.s.env.A: must be text, and nothing stands here; write "" if it is empty, `"~"` for a tilde',
        ),
        ("{command: x, env: {A=B: c}}", ':2: servers.s.env."A=B": is not the name of an environment variable'),
        ("{url: 'http://y', headers: {'A B': c}}", ':2: servers.s.headers."A B": is not the name of an HTTP header'),
        (
            r'{url: "http://y", headers: {A: "b\nc"}}',
            ":2: servers.s.headers.A: holds a line break, which an HTTP header can't",
        ),
        ("{command: x, type: stdio}", ":2: servers.s.type: unknown key; did you mean 'transport'?"),
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
        ("{command: x, tools: {exclude: ['a b']}}", ":2: servers.s.tools.exclude[0]: the glob contains white space"),
        (
            "{command: x, tools: {exclude: ['[z-a]']}}",
            ":2: servers.s.tools.exclude[0]: the glob has a range that matches nothing: from 'z' down to 'a'",
        ),
        ("{command: x, tools: {exclude: ['']}}", ":2: servers.s.tools.exclude[0]: must not be empty"),
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
