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
from codemode_server.config.settings import json_schema

DOCS = Path(__file__).parents[1] / "docs"
CONFIGURATION = """\
# Configuration

One file, `upstream.yaml`: at `--config`, `$CODEMODE_CONFIG`, `./upstream.yaml` (once you
[trust](security.md#a-repository-that-you-open) it), or in your configuration folder. `--config` also accepts a host's
JSON file with `mcpServers`. The [example](../upstream.yaml) shows the most used settings, `codemode-server config
check` prints mistakes with their lines, and `codemode-server config schema` prints the JSON Schema.

At the start, a mistake in one server disables that server only; a mistake elsewhere disables everything, because limits
and permissions must not be skipped. A saved file is read again while the server runs; an edit with any mistake is
ignored. These settings are read at the start only: `sandbox`, `tracing`, `metrics`, `results`, `http`,
`guardrails`, `principal`, `ranker` and `model` of `search`, and `dir`, `skills` and `workflows` of `state`.

This page is generated; the schema has the full texts. Defaults are in parentheses.
"""
COMMANDS = """\
# Commands

This page is generated. `codemode-server COMMAND --help` explains each option. `--config FILE` may stand before or after
each command except `trust` and `completion`. `--json` (for scripts), `--yes` (no question) and `--wait SECONDS` (for
servers) are left out below. Exit codes: 0 completed, 1 completed, but with a negative result, 2 a mistake in the
configuration or the command.

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
            text = default if isinstance(default, str) else json.dumps(default, ensure_ascii=False)
            shown = "" if default in (None, [], {}, "") else f" (`{text}`)"
            sentence = _sentence(setting)
            yield f"- `{prefix}{name}`{shown}: {_values(setting, sentence)}{sentence}\n"
            if '"items"' not in json.dumps(setting):
                yield from _settings(schema, setting, f"{prefix}{name}.")


def _values(field: dict[str, Any], sentence: str) -> str:
    """The values that a setting, or each of its entries, may have, if they are fixed and the sentence does not say."""
    kinds = field.get("anyOf", [field])
    for kind in kinds:
        entries = kind.get("additionalProperties")
        for words, values in (("one of", kind), ("each one of", entries if isinstance(entries, dict) else {})):
            if any(f"`{value}`" not in sentence for value in values.get("enum", ())):
                or_list = ", or a list" if any(other.get("type") == "array" for other in kinds) else ""
                return f"{words} {', '.join(f'`{value}`' for value in values['enum'])}{or_list}. "
    return ""


def _sentence(field: dict[str, Any]) -> str:
    """The first sentence of a description, up to a semicolon, without what is in parentheses."""
    text = " ".join(str(field.get("description", "")).split())
    text = re.sub(r" \([^()]*\)", "", text)
    short, *_ = re.split(r"(?<=[.;]) ", text, maxsplit=1)
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
        is_hidden = isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS
        if is_hidden or COMMON.intersection(action.option_strings):
            continue
        word = action.option_strings[-1] if action.option_strings else action.metavar or action.dest.upper()
        words.append(word if isinstance(word, str) else word[0])
    return " ".join(words)


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
