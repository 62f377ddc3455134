"""`config check` tells what was understood, on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemode_server.config.description import describe
from codemode_server.sandbox.registry import DEFAULT_IMAGE

if TYPE_CHECKING:
    from tests.config.conftest import Folder


def test_the_description_is_what_was_understood(folder: Folder) -> None:
    loaded = folder.load(
        """
        servers:
          github:
            command: sh
            args: [-c, "run it", --token, "${GITHUB_TOKEN}"]
            env: {GITHUB_TOKEN: "${GITHUB_TOKEN}", LOG: debug}
            timeout: 120
            tools: {include: ["get_*"], exclude: ["get_secret*", "x"]}
            description: Issues and pull requests.
          gone: {command: no-such-program-anywhere}
          web:
            url: https://h.example/sse?token=${WEB_TOKEN}
            transport: sse
            headers: {Authorization: "Bearer ${WEB_TOKEN}"}
            enabled: false
            protocol: legacy
        permissions:
          default: deny
          rules:
            - deny: "github/delete_*"
              reason: Deleting is done by hand.
            - allow: github
            - ask: gihub
        limits: {calls: 5, wall_seconds: 1.5}
        sandbox: {warm: 0}
        tracing:
          otlp_endpoint: http://127.0.0.1:4318/v1/traces
          langfuse: {public_key: pk-lf-0123456789, secret_key: sk-lf-0123456789}
        """,
        env={"GITHUB_TOKEN": "ghp-0123456789", "WEB_TOKEN": "web-0123456789"},
    )
    here = folder.path
    assert describe(loaded) == "\n".join(
        [
            f"file: {here}/upstream.yaml",
            f"relative paths: from {here}",
            "variables: GITHUB_TOKEN, WEB_TOKEN",
            "",
            "warnings:",
            "  - upstream.yaml:22: permissions.rules[2].ask: matches no server; did you mean 'github'?",
            "  - servers.gone.command: 'no-such-program-anywhere' is not found or can't be run; install it or give "
            "its path",
            "",
            "servers: 3",
            "  github (stdio)",
            "    Issues and pull requests.",
            "    command: sh -c 'run it' --token ***",
            f"    cwd: {here}",
            "    env: GITHUB_TOKEN, LOG",
            "    timeout: 120 s",
            "    tools: get_*, without get_secret* x",
            "  gone (stdio)",
            "    command: no-such-program-anywhere",
            f"    cwd: {here}",
            "    timeout: 60 s",
            "  web (sse, disabled)",
            "    url: https://h.example/sse?token=***",
            "    headers: Authorization",
            "    timeout: 60 s, protocol: legacy",
            "",
            "permissions: what no rule matches is refused",
            "  1. deny: github/delete_* (Deleting is done by hand.)",
            "  2. allow: github",
            "  3. ask: gihub",
            "",
            "principal: default",
            "groups: none",
            "http: defaults",
            f"sandbox: backend auto, require any, warm 0, image {DEFAULT_IMAGE}, memory_mb 512, cpus 1, disk_mb 256, "
            "idle_seconds 900, age_seconds 7200",
            "approvals: defaults",
            "pages: defaults",
            "guardrails: none",
            "privacy: nothing is protected",
            "limits: wall_seconds 1.5, calls 5",
            "tracing: exported by OTLP to http://127.0.0.1:4318/v1/traces and to Langfuse, as service codemode-server",
            "metrics: defaults",
            "search: defaults",
            "types: defaults",
            "results: defaults",
            "skills: defaults",
            "state: payloads shapes, kept_mb 256, record_days 90, "
            f"record_mb 256, journal_hours 168, journal_mb 256, "
            f"session_days 30, on_damage refuse, skills {here}/skills, "
            f"workflows {here}/workflows",
        ]
    )
