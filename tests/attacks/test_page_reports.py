"""What programs and servers leave for the pages of reports: hostile names and texts, links out of the workspace, files
that are swapped, never end or are too many. Each attack has its control: what is ordinary is shown and given."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote

import anyio.to_thread
import httpx2
import pytest

from codemode_server.domain.ids import ExecutionId
from codemode_server.features.skills.store import SavedSkill, SkillStore
from codemode_server.records.reports import key_of
from codemode_server.support.private_files import private_subfolder, replace_private
from codemode_server.support.untrusted_files import empty
from tests.web.pages import OTHER, OWN, Pages, State, pages

pytestmark = [pytest.mark.page_attack, pytest.mark.skipif(sys.platform == "win32", reason="has no workspace")]
HOSTILE = "<script>fetch('//evil.example')<img src=x onerror=alert(1)>{{ 7*191 }}\u202e\u200b"
REPORTS = ("tools", "skills", "workspace", "sources", "audit", "log")


def workspace(state: State, *names: str) -> Path:
    """The folder of the person's workspace, with these files."""
    folder = private_subfolder(state.folder, "workspaces", OWN.principal_id)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"content of " + os.fsencode(name))
    return folder


async def links(site: Pages) -> list[str]:
    return re.findall(r'href="[^"]*/(workspace/[^"]*)" download', await site.text("workspace"))


def link_of(path: Path) -> str:
    """As the page would have it."""
    return f"workspace/{key_of(f'{path.lstat().st_ino}/{path.name}')}"


class TestTexts:
    @pytest.mark.parametrize("path", ["skills", "workspace", "log", "a skill"])
    async def test_of_programs_and_servers_are_text(self, tmp_path: Path, path: str) -> None:
        name = HOSTILE.replace("/", "\\")
        async with pages(tmp_path) as (site, state):
            workspace(state, name)
            skill = SavedSkill("evil", f'def evil(): """{HOSTILE}"""', ExecutionId("x1"), "s1", 1.0, (HOSTILE,))
            SkillStore(state.folder, OWN).propose(skill)
            line = f"2026-11-30 08:00:01,000 INFO codemode_server.x: {HOSTILE}\n    {HOSTILE}\n"
            replace_private(private_subfolder(state.folder, "logs") / "codemode.log", line.encode())
            shown = await site.text(f"skills/{key_of('evil@x1')}" if path == "a skill" else path)
        assert "onerror=alert(1)&gt;{{ 7*191 }}" in shown, "control"
        assert "<script>" not in shown
        assert "<img" not in shown
        assert "1337" not in shown
        assert not {"\u202e", "\u200b"} & set(shown)

    async def test_have_no_secret_of_the_configuration(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        secret = "ghp_q8W2nR5tY7uI9oP1aS3dF6gH4jK0lZ"
        monkeypatch.setenv("GITHUB_TOKEN", secret)
        servers = {"github": {"command": "x", "env": {"TOKEN": "${GITHUB_TOKEN}"}}}
        async with pages(tmp_path, servers=servers) as (site, state):
            workspace(state, f"of {secret}.txt")
            text = f'def evil(): """Says {secret}."""\n'
            SkillStore(state.folder, OWN).propose(SavedSkill("evil", text, ExecutionId("x1"), "s1", 1.0))
            paths = ("workspace", "skills", f"skills/{key_of('evil@x1')}")
            shown = [await site.text(it) for it in paths]
        assert ["of ***.txt" in shown[0], *("Says ***." in it for it in shown[1:])] == [True] * 3, "control"
        assert secret not in "".join(shown)


class TestDownloads:
    @pytest.mark.parametrize(
        ("name", "saved"),
        [
            ("page.html", "page.html"),
            ("picture.svg", "picture.svg"),
            ('a"; filename=evil.exe; x="', 'a"; filename=evil.exe; x="'),
            ("two\r\nSet-Cookie: codemode=evil", "two\\r\\nSet-Cookie: codemode=evil"),
            ("report\u202efdp.exe", "report\\u202efdp.exe"),
            ("\udcff", "\\udcff"),
        ],
    )
    async def test_are_never_rendered_whatever_their_name(self, tmp_path: Path, name: str, saved: str) -> None:
        async with pages(tmp_path) as (site, state):
            workspace(state, name)
            (link,) = await links(site)
            answer = await site.get(link)
        assert answer.content == b"content of " + os.fsencode(name), "control"
        kind, file = answer.headers["content-disposition"].split("; filename*=UTF-8''")
        assert (kind, unquote(file)) == ("attachment", saved)
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "set-cookie" not in answer.headers

    @pytest.mark.parametrize(
        "path",
        [
            "../upstream.yaml",
            "..%2f..%2f..%2fupstream.yaml",
            "%2e%2e/%2e%2e/%2e%2e/upstream.yaml",
            "..%5c..%5cupstream.yaml",
            "/etc/passwd",
            "%2fetc%2fpasswd",
            "plain.txt",
            "plain.txt%00.html",
        ],
    )
    async def test_are_not_found_by_a_path(self, tmp_path: Path, path: str) -> None:
        async with pages(tmp_path) as (site, state):
            workspace(state, "plain.txt")
            (link,) = await links(site)
            assert (await site.get(link)).status_code == 200, "control"
            answer = await site.get(f"workspace/{path}")
        assert answer.status_code in (403, 404)
        assert not any(it in answer.text for it in ("servers", "root:", "content of"))

    async def test_follow_no_link(self, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret").write_text("precious")
        async with pages(tmp_path) as (site, state):
            folder = workspace(state, "plain.txt")
            (folder / "file").symlink_to(outside / "secret")
            (folder / "folder").symlink_to(outside)
            page = await site.text("workspace")
            assert await links(site) == [link_of(folder / "plain.txt")], "control: links are listed, and not given"
            assert ">file<" in page
            for place in (folder / "file", folder / "folder", outside / "secret"):
                assert (await site.get(link_of(place))).status_code == 404

    async def test_give_nothing_in_place_of_a_file_that_was_listed(self, tmp_path: Path) -> None:
        """The address names the file itself, and not what has its name by now."""
        outside = tmp_path / "secret"
        outside.write_text("precious")
        async with pages(tmp_path) as (site, state):
            folder = workspace(state, "a", "b")
            first, second = sorted(await links(site))
            kept = folder / "kept"
            for name in ("a", "b"):
                os.link(folder / name, kept.with_name(f"kept-{name}"))  # so that no other file gets their numbers
                (folder / name).unlink()
            (folder / "a").symlink_to(outside)
            (folder / "b").mkdir()
            answers = [await site.get(first), await site.get(second)]
        assert [it.status_code for it in answers] == [404, 404]
        assert "precious" not in answers[0].text + answers[1].text

    async def test_do_not_wait_for_a_pipe(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            folder = workspace(state, "plain.txt")
            os.mkfifo(folder / "pipe")
            assert len(await links(site)) == 1, "control"
            answer = await site.get(link_of(folder / "pipe"))
        assert answer.status_code == 404

    async def test_end_where_the_file_ended_although_a_program_goes_on_writing(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state):
            path = workspace(state, "grows") / "grows"
            path.write_bytes(bytes(3 << 20))
            (link,) = await links(site)
            with path.open("ab", buffering=0) as file:
                async with site.browser.stream("GET", f"{site.base}/{link}") as answer:
                    got = 0
                    async for part in answer.aiter_bytes():
                        got += len(part)
                        file.write(bytes(2 * len(part)))
        assert got == 3 << 20

    async def test_are_only_those_of_the_person(self, tmp_path: Path) -> None:
        async with pages(tmp_path) as (site, state), httpx2.AsyncClient() as other:
            workspace(state, "mine")
            theirs = private_subfolder(state.folder, "workspaces", OTHER.principal_id) / "theirs"
            theirs.write_text("content of theirs")
            (link,) = await links(site)
            assert "content of mine" in (await site.get(link)).text, "control"
            assert "theirs" not in await site.text("workspace")
            assert (await site.get(link_of(theirs))).status_code == 404
            for path in (*REPORTS, link):
                refused = await other.get(f"{site.base}/{path}")
                assert (refused.status_code, "mine" in refused.text) == (403, False), path


async def test_skills_of_other_principals_are_not_shown(tmp_path: Path) -> None:
    async with pages(tmp_path) as (site, state):
        for owner, name in ((OWN, "mine"), (OTHER, "theirs")):
            skill = SavedSkill(name, f"def {name}(): pass\n", ExecutionId("x1"), "s1", 1.0)
            SkillStore(state.folder, owner).propose(skill)
        shown = await site.text("skills")
        assert (await site.get(f"skills/{key_of('mine@x1')}")).status_code == 200, "control"
        assert (await site.get(f"skills/{key_of('theirs@x1')}")).status_code == 404
    assert ("mine@x1" in shown, "theirs" in shown) == (True, False)


async def test_a_log_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("2026-11-30 08:00:01,000 INFO x: precious\n")
    async with pages(tmp_path) as (site, state):
        logs = private_subfolder(state.folder, "logs")
        (logs / "codemode.log").symlink_to(tmp_path / "secret")
        assert "precious" not in await site.text("log")
        (logs / "codemode.log").unlink()
        replace_private(logs / "codemode.log", (tmp_path / "secret").read_bytes())
        assert "precious" in await site.text("log"), "control"


@pytest.mark.slow
async def test_a_hundred_thousand_files_and_folders_in_folders_leave_a_page_of_bounded_size(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        for n in range(100):
            (folder / f"f{n}").mkdir()
            for m in range(1_000):
                os.close(os.open(folder / f"f{n}" / f"{m}", os.O_CREAT | os.O_WRONLY, 0o600))
        (folder / "largest").write_bytes(bytes(1 << 20))
        here = os.open(folder, os.O_RDONLY)
        for _ in range(3_000):
            os.mkdir("d" * 200, dir_fd=here)
            below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open("deep", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=here))
        os.close(here)

    async with pages(tmp_path) as (site, state):
        folder = workspace(state)
        await anyio.to_thread.run_sync(fill, folder)
        shown = (await site.get("workspace", timeout=300)).text
        assert len((await site.get(link_of(folder / "largest"), timeout=300)).content) == 1 << 20
        await anyio.to_thread.run_sync(empty, folder)
    assert "100,002 files" in shown
    assert "99,502 more" in shown
    assert len(shown) < 500_000
