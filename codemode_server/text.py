"""Text from outside made fit to show: without control characters, and no longer than a budget."""

from __future__ import annotations

import re

from codemode_server.tokens import estimate_tokens

# ANSI sequences (CSI, OSC and the two-character ones), then every other control character but tab and newline, then
# the characters that turn the direction of text around, which can make a line read as what it is not.
_UNFIT = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|[\u202a-\u202e\u2066-\u2069]"
)


def clean(text: str) -> str:
    """`text` without terminal escapes, control characters and bidirectional overrides; lone surrogates replaced."""
    text = _UNFIT.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return text.encode("utf-8", "replace").decode("utf-8")


def clean_line(text: str, limit: int) -> str:
    """`text` cleaned, on one line, at most `limit` characters."""
    line = " ".join(clean(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def cut_middle(text: str, budget_tokens: int, remedy: str = "") -> str:
    """`text` with as much of its middle left out as brings it to about `budget_tokens`, saying how much that was."""
    total = estimate_tokens(text)
    if total <= budget_tokens:
        return text
    keep = int(len(text) * budget_tokens / total)
    head, tail = text[: keep * 2 // 3], text[len(text) - keep // 3 :]
    head = head[: head.rfind("\n") + 1] or head if "\n" in head[len(head) // 2 :] else head
    first_break = tail.find("\n")
    tail = tail[first_break + 1 :] if 0 <= first_break < len(tail) // 2 else tail
    omitted = total - estimate_tokens(head) - estimate_tokens(tail)
    note = f"[… about {omitted} tokens left out{'; ' + remedy if remedy else ''} …]"
    return f"{head.rstrip()}\n{note}\n{tail.lstrip()}"
