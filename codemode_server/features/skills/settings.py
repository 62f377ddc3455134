"""The section `skills` of `upstream.yaml`."""

from __future__ import annotations

from typing import Literal

from codemode_server.support.setting_types import FeatureSettings


class SkillSettings(FeatureSettings):
    """Skills that programs save."""

    key = "skills"

    review: Literal["required", "auto"] = "required"
    """`required`: a skill that a program saves can be imported by its own session, and by others once you have accepted
    it (`codemode-server skills accept NAME`). `auto`: by every session of its principal as soon as its program has
    succeeded; a new version of a skill that you accepted still waits for you."""
