"""Writes the rule of the answer `always` into the configuration, before the rule that asked."""

from __future__ import annotations

from codemode_server.calls.policy.rules import PermissionRules
from codemode_server.config import saving
from codemode_server.config.loading import load_place
from codemode_server.config.places import ConfigFile
from codemode_server.domain.approvals import Question
from codemode_server.domain.errors import CodemodeError


def write_rule(place: ConfigFile, question: Question) -> None:
    """Allow this tool, and nothing else, where the question's rule asks. Blocks. Raises `CodemodeError`."""
    with saving.locked(place) as file:
        index = PermissionRules(load_place(place).settings.permissions).place_before_asking(question.reason)
        if question.rule is None or index is None:
            raise CodemodeError(
                f"{place.path} has other rules than when the question was asked; add the rule by hand: {question.rule}"
            )
        file.text.insert_rule(index, {"allow": f"{question.server}/{question.tool}"})
        file.save()
