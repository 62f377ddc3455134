"""Skills: what is known of a saved program without running it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codemode_server.domain.skills import Skill
from codemode_server.features.skills.library import ProjectSkills


@pytest.mark.parametrize(
    ("source", "skill"),
    [
        ('"""Sum up.\n\nMore."""', Skill("weekly", "Sum up.")),
        ("def _help(): ...\ndef weekly(week: int, *, to: str = 'me') -> list[str]: ...", Skill(
            "weekly", "", "weekly", "weekly(week: int, *, to: str='me') -> list[str]")),
        ("async def report(): ...\ndef other(): ...", Skill("weekly", "", "report", "report()")),
        ("def first(): ...\nasync def weekly(): ...", Skill("weekly", "", "weekly", "weekly()")),
        ("class Weekly:\n    def weekly(self): ...", Skill("weekly", "")),
        ("def weekly(:", Skill("weekly", "(not valid Python)")),
        (f"def weekly(a={'(' * 300}1{')' * 300}): ...", Skill("weekly", "(not valid Python)")),
    ],
)  # fmt: skip
def test_a_skill_is_told_by_its_first_line_and_its_function(tmp_path: Path, source: str, skill: Skill) -> None:
    (tmp_path / "weekly.py").write_text(source)
    assert ProjectSkills(tmp_path).entries() == [skill]


def test_a_long_signature_is_cut(tmp_path: Path) -> None:
    (tmp_path / "weekly.py").write_text(f"def weekly({', '.join(f'parameter_{n}' for n in range(200))}): ...")
    (skill,) = ProjectSkills(tmp_path).entries()
    assert len(skill.signature) == 240


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    skills = ProjectSkills(tmp_path)
    for text in ("First.", "Changed."):
        (tmp_path / "weekly.py").write_text(f'"""{text}"""')
        assert skills.entries() == [Skill("weekly", text)]


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need a privilege there")
def test_what_is_no_file_of_the_folder_is_no_skill(tmp_path: Path) -> None:
    folder = tmp_path / "skills"
    (folder / "folder.py").mkdir(parents=True)
    (tmp_path / "outside.py").write_text('"""Outside."""')
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    (folder / "no-name.py").write_text("")
    assert ProjectSkills(folder).entries() == []
    assert ProjectSkills(tmp_path / "none").entries() == []
