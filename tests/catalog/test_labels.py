"""Labels that are guessed from annotations, names and parameters, compared with labels that a person gave the tools of
published servers. A guess may miss a label, and should seldom give a wrong one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codemode_server.catalog.labels import PRIVATE, PUBLIC_SINK, UNTRUSTED, guess_labels, guess_resource_labels
from codemode_server.domain.tools import Effect, ToolDefinition

from .conftest import SHARED, definition

BY_HAND = Path(__file__).with_name("labels_by_hand.txt")
"""A server on a line, then its tools by their labels."""
MIN_PRECISION = {PRIVATE: 0.9, UNTRUSTED: 0.9, PUBLIC_SINK: 0.9}
MIN_RECALL = {PRIVATE: 0.65, UNTRUSTED: 0.75, PUBLIC_SINK: 0.65}


@pytest.fixture(scope="module")
def compared() -> list[tuple[str, set[str], set[str]]]:
    """Each tool with the labels by hand and those that are guessed."""
    rows, server, listed = [], "", dict[str, ToolDefinition]()
    for line in BY_HAND.read_text().splitlines():
        if not line.startswith(" "):
            server = line
            file = next((SHARED / "toolsets").glob(f"*{server}.json"), None)
            if file is None:
                pytest.skip(f"no captured tool lists in {SHARED / 'toolsets'}")
            listed = {it["name"]: definition(it) for it in json.loads(file.read_text())["tools"]}
            continue
        labels, _, names = line.partition(": ")
        for name in names.split():
            guessed = guess_labels(server.partition("__")[2] or server, listed[name])
            rows.append((f"{server}/{name}", set(labels.split()) - {"none"}, set(guessed)))
    return rows


@pytest.mark.parametrize("label", [PRIVATE, UNTRUSTED, PUBLIC_SINK])
def test_guesses_are_seldom_wrong(compared: list[tuple[str, set[str], set[str]]], label: str) -> None:
    right = [name for name, by_hand, guessed in compared if label in by_hand & guessed]
    wrong = [name for name, by_hand, guessed in compared if label in guessed - by_hand]
    missed = [name for name, by_hand, guessed in compared if label in by_hand - guessed]
    precision, recall = len(right) / len([*right, *wrong]), len(right) / len([*right, *missed])
    print(f"{label}: {len(right)} right, wrong {wrong}, missed {missed}: {precision:.2f}, {recall:.2f}")
    assert precision >= MIN_PRECISION[label], wrong
    assert recall >= MIN_RECALL[label], missed


@pytest.mark.parametrize(
    ("server", "tool", "labels"),
    [
        ("mail", "searchEmails", {PRIVATE, UNTRUSTED}),
        ("mail", "send_email", {PUBLIC_SINK}),
        ("social", "PublishPost", {PUBLIC_SINK}),
        ("github", "get_issue", {UNTRUSTED}),
        ("warehouse", "query", {PRIVATE}),
        ("math", "add", set()),
        ("github", "get_issue_types", set()),
    ],
)
def test_names_in_any_style_are_read(server: str, tool: str, labels: set[str]) -> None:
    assert guess_labels(server, ToolDefinition(tool)) == labels


def test_a_tool_of_a_closed_world_neither_reads_strangers_texts_nor_sends_anything_out() -> None:
    for is_closed_world, labels in ((False, {PUBLIC_SINK}), (True, set())):
        assert guess_labels("mail", ToolDefinition("send_email", is_closed_world=is_closed_world)) == labels


def test_what_a_tool_says_of_its_effect_goes_before_a_verb_that_means_both() -> None:
    for effect, labels in ((Effect.UNKNOWN, set()), (Effect.READS, {PRIVATE})):
        assert guess_labels("files", ToolDefinition("file", effect=effect)) == labels


def test_the_address_of_a_resource_says_where_it_is() -> None:
    assert guess_resource_labels("https://example.com/a", is_expanded=False) == {UNTRUSTED}
    assert guess_resource_labels("https://example.com/a", is_expanded=True) == {UNTRUSTED, PUBLIC_SINK}
    assert guess_resource_labels("file:///etc/hosts", is_expanded=True) == {PRIVATE}
    assert guess_resource_labels("note://one", is_expanded=True) == set()
