"""A skill or a workflow, as the catalog and the search show it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SkillState(StrEnum):
    """A skill is …"""

    PROJECT = "project"  # in the project's folder, where a person put it
    ACCEPTED = "accepted"  # saved by a program, and accepted by a person
    UNREVIEWED = "unreviewed"  # saved by a program and in use, since `skills.review` is `auto`
    PROPOSED = "proposed"  # saved by a program; only its session can import it


@dataclass(frozen=True, slots=True)
class Skill:
    """One saved program, importable as `skills.<name>`, or one workflow, importable as `workflows.<name>`."""

    name: str
    summary: str
    """The first line of its docstring."""
    function: str = ""
    """The function to import from it: the one of its own name, else its first public one, if it has any."""
    signature: str = ""
    """Signature of that function, on one line."""
    tools: tuple[str, ...] = ()
    state: SkillState = SkillState.PROJECT
    execution_id: str = ""
    """The execution that saved it; empty for a project's skill."""
    principal_id: str = ""
    """Whose it is; empty for a project's skill, which every principal has."""
    package: str = "skills"
    """`workflows` for a workflow, which is imported like a skill."""

    @property
    def title(self) -> str:
        """`skills.weekly`, as it is imported."""
        return f"{self.package}.{self.name}"

    @property
    def import_line(self) -> str:
        return f"from {self.title} import {self.function}" if self.function else f"import {self.title}"

    @property
    def path(self) -> str:
        suffix = ".yaml" if self.package == "workflows" else ".py"
        return f"/{self.package}/{self.name}{suffix}"

    @property
    def calls(self) -> str:
        return f"calls {', '.join(self.tools)}" if self.tools and self.state is not SkillState.PROJECT else ""

    @property
    def mark(self) -> str:
        """Why it is held back, or a remark on it."""
        return _MARKS.get(self.state, "")

    @property
    def note(self) -> str:
        said = " · ".join(part for part in (self.summary, self.calls) if part)
        return f"{said} [{self.mark}]".lstrip() if self.mark else said


_MARKS = {
    SkillState.PROPOSED: "proposed: only this session can import it until the user accepts it",
    SkillState.UNREVIEWED: "no person has reviewed it",
}
