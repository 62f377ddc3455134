"""Folders with a `SKILL.md` in the project's skills are listed, read, found and imported; nothing is that is no plain
file of theirs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import MetaToolError
from codemode_server.executions.skills.library import SkillLibrary
from codemode_server.executions.skills.project_skills import ProjectSkills, folders_in
from tests.behaviour.product import configuration, in_memory, office
from tests.executions.kit import ME

HEAD = "---\nname: pdf-forms\ndescription: >\n  Fill in forms of PDF files.\nlicense: MIT\n---\n# How\nRead it.\n"
FIELDS = "from .shared import PREFIX\nNAMES = [PREFIX + 'a']\n"


def with_skill(folder: Path, head: str = HEAD) -> Path:
    skill = folder / "skills" / "pdf-forms"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(head)
    (skill / "reference.md").write_text("All of it.\n")
    (skill / "scripts" / "fields.py").write_text(FIELDS)
    (skill / "scripts" / "shared.py").write_text("PREFIX = 'x'\n")
    (skill / "scripts" / "not-a-name.py").write_text("1 / 0\n")
    return skill


async def test_a_host_lists_reads_finds_and_imports_it(tmp_path: Path) -> None:
    with_skill(tmp_path)
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"))) as host:
        listed = (await host.call("list_dir", path="/skills")).text
        inner = (await host.call("list_dir", path="/skills/pdf-forms")).text
        scripts = (await host.call("list_dir", path="/skills/pdf-forms/scripts")).text
        read = (await host.call("read_tool", path="/skills/pdf-forms/SKILL.md")).text
        part = (await host.call("read_tool", path="/skills/pdf-forms/scripts/shared.py:1")).text
        found = (await host.call("search_tools", query="fill in a PDF form")).text
        use = "from skills.pdf_forms.scripts.fields import NAMES\nimport skills.pdf_forms.scripts as scripts\n"
        ran = await host.run(f"{use}[NAMES, sorted(dir(scripts))]")
    assert listed.splitlines()[1:] == ["pdf-forms/  Fill in forms of PDF files."]
    assert inner.splitlines() == ["/skills/pdf-forms", "SKILL.md", "reference.md", "scripts/"]
    assert "fields.py" in scripts
    assert read.splitlines()[:3] == ["# /skills/pdf-forms/SKILL.md", "---", "name: pdf-forms"]
    assert part == "# /skills/pdf-forms/scripts/shared.py\nPREFIX = 'x'"
    assert "read_tool: /skills/pdf-forms/SKILL.md\n    Fill in forms of PDF files." in found
    names, members = ran.value
    assert names == ["xa"]
    assert "fields" in members
    assert "not-a-name" not in members


def library(folder: Path) -> SkillLibrary:
    return SkillLibrary(ProjectSkills(folder / "skills"), folder / "state", LiveConfig())


@pytest.mark.parametrize(
    ("head", "summary"),
    [
        ("no front matter\n", "(no description)"),
        ("---\nname: [\n---\n", "(no description)"),
        ("---\n- a\n---\n", "(no description)"),
        ("---\ndescription: &a [*a]\n---\n", "(no description)"),
        ("---\nname: Forms\ndescription: Two\n  lines\u202e and a mark\n---\n", "Forms: Two lines and a mark"),
        (f"---\ndescription: {'x' * 5_000}\n---\n", "x" * 1_023 + "…"),
        ("---\r\ndescription: From Windows\r\n---\r\n", "From Windows"),
    ],
)
def test_a_front_matter_that_says_nothing_useful_hides_nothing_else(tmp_path: Path, head: str, summary: str) -> None:
    with_skill(tmp_path, head)
    assert [skill.summary for skill in library(tmp_path).entries(ME)] == [summary]


@pytest.mark.parametrize(
    "parts",
    [
        ("..", "outside.md"),
        ("scripts", "..", "..", "..", "outside.md"),
        (".hidden",),
        ("scripts",),
        ("none.md",),
        ("",),
    ],
)
def test_nothing_but_its_own_files_is_read(tmp_path: Path, parts: tuple[str, ...]) -> None:
    skill = with_skill(tmp_path)
    (tmp_path / "skills" / "outside.md").write_text("outside")
    (skill / ".hidden").write_text("hidden")
    assert library(tmp_path).read_file(("pdf-forms", "reference.md")) == "All of it.\n"  # the control
    with pytest.raises(MetaToolError, match="there is no file"):
        library(tmp_path).read_file(("pdf-forms", *parts))


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_links_and_special_files_are_neither_listed_nor_read(tmp_path: Path) -> None:
    skill = with_skill(tmp_path)
    (tmp_path / "secret.md").write_text("secret")
    (skill / "linked.md").symlink_to(tmp_path / "secret.md")
    (skill / "linked").symlink_to(tmp_path)
    os.mkfifo(skill / "pipe.md")
    (tmp_path / "skills" / "other").symlink_to(skill)
    found = library(tmp_path)
    assert [name for name, _ in found.list_folder(("pdf-forms",))] == ["SKILL.md", "reference.md", "scripts"]
    assert [it.name for it in folders_in(tmp_path / "skills")] == ["pdf-forms"]
    for name in ("linked.md", "pipe.md"):
        with pytest.raises(MetaToolError):
            found.read_file(("pdf-forms", name))
