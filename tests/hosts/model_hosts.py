"""Four hosts as their vendors publish them on npm: how each is configured, started and pointed at a scripted model.

Each gets a home of its own and an environment of nothing but what is listed here. What is not loopback goes to a proxy
that isn't there, so no host reaches anybody, whatever its settings for telemetry and updates.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codemode_server.sandbox.backends.wasm import component
from tests.hosts.kit import ROOT, NodeTools, installed_command

SECONDS = 100
"""For one start of a host; on a quiet machine each takes less than ten."""
_NOWHERE = "http://127.0.0.1:9"
_KEY = "not-a-key"
PROMPT = "Run the program."


@dataclass(frozen=True)
class Project:
    """Where a host is started, and what it is to talk to."""

    folder: Path
    model_url: str
    config: Path
    data: Path
    """The product's data folder, in which the socket of the running server is; its path is short, as a socket's is."""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def command(self) -> list[str]:
        return [str(installed_command(self.folder)), "--config", str(self.config)]

    @property
    def environment(self) -> dict[str, str]:
        """Of the product: without its cache it would compile its sandbox anew for each home."""
        return {"XDG_CACHE_HOME": str(component.cache_folder().parent), "XDG_DATA_HOME": str(self.data)}

    def write(self, path: str, content: str | dict[str, Any]) -> None:
        """A file under the home."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))


def _claude_code(project: Project) -> dict[str, str]:
    command, *args = project.command
    server = {"type": "stdio", "command": command, "args": args, "env": project.environment}
    project.write(".claude.json", {"mcpServers": {"codemode": server}, "hasCompletedOnboarding": True})
    return {
        "ANTHROPIC_BASE_URL": project.model_url,
        "ANTHROPIC_API_KEY": _KEY,
        # Else a run without a person asks its model at once, and servers come later; a scripted model asks only once.
        "MCP_CONNECTION_NONBLOCKING": "false",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }


def _codex(project: Project) -> dict[str, str]:
    command, *args = project.command
    project.write(
        ".codex/config.toml",
        f"""
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{project.model_url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
[mcp_servers.codemode]
command = {json.dumps(command)}
args = {json.dumps(args)}
env = {{ {", ".join(f"{name} = {json.dumps(value)}" for name, value in project.environment.items())} }}
required = true
default_tools_approval_mode = "approve"
""",
    )
    return {"CODEX_HOME": str(project.home / ".codex"), "SCRIPTED_KEY": _KEY}


def _gemini_cli(project: Project) -> dict[str, str]:
    command, *args = project.command
    server = {"command": command, "args": args, "env": project.environment, "trust": True}
    project.write(
        ".gemini/settings.json",
        {
            "mcpServers": {"codemode": server},
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        },
    )
    return {
        "GEMINI_API_KEY": _KEY,
        "GOOGLE_GEMINI_BASE_URL": project.model_url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def _opencode(project: Project) -> dict[str, str]:
    model = {
        "name": "scripted",
        "attachment": True,
        "tool_call": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "limit": {"context": 100_000, "output": 10_000},
    }
    options = {"baseURL": f"{project.model_url}/v1", "apiKey": _KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": model}}
    server = {"type": "local", "command": project.command, "environment": project.environment}
    project.write(
        ".config/opencode/opencode.json",
        {"provider": {"scripted": provider}, "mcp": {"codemode": server}, "autoupdate": False, "share": "disabled"},
    )
    return {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }


@dataclass(frozen=True)
class ModelHost:
    """One host."""

    name: str
    """Of its set in `requirements/npm`."""
    binaries: tuple[str, ...]
    """Below node_modules, each a glob: what to run. An npm script would only copy it, and none is run here."""
    configure: Callable[[Project], Mapping[str, str]]
    """Writes its configuration into the home; gives its environment."""
    ask: tuple[str, ...]
    """Arguments that make it answer PROMPT without a person."""

    def run(self, project: Project, tools: NodeTools, *arguments: str) -> str:
        """Run it to its end; gives stdout and stderr."""
        node_modules = Path(tools.path.split(os.pathsep)[0]).parent
        binary = next(file for glob in self.binaries for file in sorted(node_modules.glob(glob)))
        environment = {
            "HOME": str(project.home),
            "PATH": f"{tools.path}{os.pathsep}{os.environ['PATH']}",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "NODE_COMPILE_CACHE": str(ROOT / ".cache" / "node"),
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), _NOWHERE),
            **self.configure(project),
        }
        with subprocess.Popen(
            (*(("node",) if binary.suffix == ".js" else ()), str(binary), *arguments),
            cwd=project.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                said, _ = process.communicate()
                raise AssertionError(f"{self.name} did not end within {SECONDS} s:\n{said[-3_000:]}") from None
        return said


MODEL_HOSTS = [
    ModelHost(
        "claude-code",
        ("@anthropic-ai/claude-code-*/claude",),
        _claude_code,
        ("-p", PROMPT, "--allowedTools", "mcp__codemode__execute_code"),
    ),
    ModelHost(
        "codex",
        ("@openai/codex-*/vendor/*/bin/codex",),
        _codex,
        ("exec", "--skip-git-repo-check", "--sandbox", "read-only", PROMPT),
    ),
    ModelHost(
        "gemini-cli",
        ("@google/gemini-cli/bundle/gemini.js",),
        _gemini_cli,
        ("--prompt", PROMPT, "--yolo", "--model", "gemini-2.5-pro"),
    ),
    ModelHost(
        "opencode",
        ("opencode-linux-x64-baseline/bin/opencode",),
        _opencode,
        ("run", "--model", "scripted/scripted", PROMPT),
    ),
]
LISTING_HOSTS = [
    *MODEL_HOSTS,
    ModelHost("copilot", ("@github/copilot-linux-*/copilot",), lambda _project: {}, ()),
]
"""With those whose list of servers needs no account and no model. Cline's asks for a terminal, Amp needs a
script of its package, and packages that Qwen Code's lock would name are not on npm."""
