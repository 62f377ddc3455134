"""Writes the generated reference: `python -m scripts.write_reference`, after a change of settings or commands.

docs/upstream.schema.json   the JSON Schema of upstream.yaml, for editors
docs/configuration.md       every setting with its default
docs/commands.md            every command with its options
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codemode_server.cli import whole_parser
from codemode_server.settings import json_schema

DOCS = Path(__file__).parents[1] / "docs"
CONFIGURATION = """\
# Configuration

One file, `upstream.yaml`: at `--config`, `$CODEMODE_CONFIG`, `./upstream.yaml` (once you
[trust](security.md#a-repository-that-you-open) it), or in your configuration folder. `--config` also accepts a host's
file. The [example](../upstream.yaml) shows every setting in place, `codemode-server config check` prints mistakes with
their lines, and `codemode-server config schema` prints the JSON Schema.

A saved file is read again while the server runs; an edit with a mistake is not used. A mistake in one server disables
that server only; a mistake elsewhere disables everything, because limits and permissions must not be skipped.

This page is generated from the settings; the schema has the full text of each.
"""
COMMANDS = """\
# Commands

This page is generated. `codemode-server COMMAND --help` explains each option; `--config FILE` may stand before or after
a command. `--json` (for scripts), `--yes` (no question) and `--wait SECONDS` (for servers) are left out below.
Exit codes:
0 done, 1 done with a bad answer, 2 the configuration or the call is wrong.

"""
COMMON = {"--config", "--json", "--yes", "--wait"}
"""Options that the page does not repeat."""


def pages() -> dict[str, str]:
    """The text of each generated file, by its name in docs/."""
    return {
        "upstream.schema.json": json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n",
        "configuration.md": configuration(),
        "commands.md": commands(),
    }


def configuration() -> str:
    schema = json_schema()
    parts = [CONFIGURATION]
    for name, section in schema["properties"].items():
        if name != "mcpServers":
            lines = "".join(_settings(schema, section, "")) or f"{_sentence(section)}.\n"
            parts.append(f"## {name}\n{lines}")
    return "\n".join(parts)


def commands() -> str:
    lines = (
        f"- `{f'{name} {_usage(parser)}'.strip()}`: {summary}\n" for name, parser, summary in _leaves(whole_parser())
    )
    return COMMANDS + "".join(lines)


def _settings(schema: dict[str, Any], field: dict[str, Any], prefix: str) -> Iterator[str]:
    """The settings of the models that a field refers to, those of their own sections included."""
    for reference in re.findall(r'"#/\$defs/(\w+)"', json.dumps(field)):
        for name, setting in schema["$defs"][reference].get("properties", {}).items():
            default = setting.get("default")
            shown = "" if default in (None, [], {}, "") else f" = `{json.dumps(default, ensure_ascii=False)}`"
            yield f"- `{prefix}{name}`{shown}: {_sentence(setting)}\n"
            if '"items"' not in json.dumps(setting):
                yield from _settings(schema, setting, f"{prefix}{name}.")


def _sentence(field: dict[str, Any]) -> str:
    """The beginning of a description, up to the first sentence's end, semicolon or bracket."""
    text = " ".join(str(field.get("description", "")).split())
    short, *_ = re.split(r"(?<=[.;]) | \(", text, maxsplit=1)
    return (short if len(short) > 12 else text).rstrip(".;:")


def _leaves(
    parser: argparse.ArgumentParser, name: str = "", summary: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """The commands that can be typed: name, parser, summary."""
    choices = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in choices:
        summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for word, below in action.choices.items():
            yield from _leaves(below, f"{name} {word}".strip(), summaries.get(word, ""))
    if not choices:
        yield name, parser, summary


def _usage(parser: argparse.ArgumentParser) -> str:
    words = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction) or COMMON.intersection(action.option_strings):
            continue
        word = action.option_strings[-1] if action.option_strings else action.metavar or action.dest.upper()
        words.append(word if isinstance(word, str) else word[0])
    return " ".join(words)


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
