"""A home folder in which two hosts have servers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

HOST_SECRET = "ghp_z9Y8xW7vU6tS5rQ4pO3nM2lK1jI0hG"
CLAUDE = {
    "github": {
        "command": "npx",
        "args": ["-y", "@modelcontextprotocol/server-github"],
        "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": HOST_SECRET},
    },
    "sentry": {"type": "http", "url": "https://mcp.sentry.dev/mcp"},
    "playwright": {"command": "npx", "args": ["@playwright/mcp@latest"]},
}
CURSOR = {"sqlite": {"command": "uvx", "args": ["mcp-server-sqlite", "--db-path", "/home/ann/notes.db"]}}


def hosts_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the files of the hosts, and make this folder the home."""
    for name, servers in {".claude.json": CLAUDE, ".cursor/mcp.json": CURSOR}.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(json.dumps({"mcpServers": servers}))
    for variable in (*os.environ,):
        if variable.startswith(("XDG_", "CODEMODE_CONFIG", "CLAUDE", "CODEX", "COPILOT", "GITHUB")):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(home))
