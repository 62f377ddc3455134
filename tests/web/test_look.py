"""How the pages look after an evening of work: pictures for the documentation, phones, themes and accessibility.

`CODEMODE_PICTURES=1` writes the pictures into docs/images; without it they are only made, and no picture is compared
with another: fonts differ between machines."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from scripts import npm
from tests.web.chromium import Chromium, do, entered, need_chromium
from tests.web.evening import VIEWS, evening
from tests.web.pages import Pages

pytestmark = pytest.mark.slow
IMAGES = Path(__file__).parents[2] / "docs" / "images"
PAGES = IMAGES.parent / "pages.md"
MAX_BYTES, MAX_BYTES_IN_ALL = 60_000, 800_000
DESKTOP, PHONE = (1280, 800), (390, 800)
IDS = re.compile(r"/(x2f\w+|a\d|[0-9a-f]{16}|\d+|[A-Z]+_\d+)(?=/|$)")
WITHOUT_FOLDERS = """
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode())
      for (const it of arguments[0]) texts.currentNode.data = texts.currentNode.data.replaceAll(it, "/home/ann");
"""
"""Folders of the machine on which the pictures are made are not in them."""
BROKEN_WORDS = """
    const broken = [], range = document.createRange();
    const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode;
      if (!text.parentElement.closest("th, td, h1, h2, dt, dd, nav, button")) continue;
      for (const run of text.data.matchAll(/\\S+/gu)) {
        if (run[0].length > 60) continue;  // an address
        for (const word of run[0].matchAll(/[\\p{L}\\p{N}_]+/gu)) {
          if (word[0].length > 24) continue;
          range.setStart(text, run.index + word.index);
          range.setEnd(text, run.index + word.index + word[0].length);
          if (new Set(Array.from(range.getClientRects(), (it) => it.top)).size > 1) broken.push(word[0]);
        }
      }
    }
    return broken;
"""


@pytest.fixture(scope="module", autouse=True)
def has_chromium() -> None:
    need_chromium()


@asynccontextmanager
async def in_browser(folder: Path) -> AsyncIterator[tuple[Chromium, Pages]]:
    async with evening(folder) as (site, _), entered(site) as browser:
        yield browser, site


def kind_of(path: str) -> str:
    """The view at a path: the path without what names one thing."""
    return IDS.sub("/*", path.partition("?")[0].partition("#")[0])


async def kinds_linked(browser: Chromium, site: Pages) -> set[str]:
    """The kinds of the pages that links of the open page lead to."""
    links = await do(
        browser.run, "return Array.from(document.querySelectorAll('a[href]:not([download])'), (it) => it.href)"
    )
    return {kind_of(it.removeprefix(f"{site.base}/")) for it in links if it.startswith(f"{site.base}/")}


async def test_every_view_has_its_picture_in_the_documentation(tmp_path: Path) -> None:
    """A page that a link leads to, and that has no picture, is found."""
    linked = set[str]()
    async with in_browser(tmp_path) as (browser, site):
        for n, (name, path) in enumerate(VIEWS.items()):
            await do(browser.use_theme, ("light", "dark")[n % 2])
            await do(browser.open, f"{site.base}/{path}")
            assert await do(browser.text, "nav"), f"{path} is no page with navigation"
            linked |= await kinds_linked(browser, site)
            await do(browser.resize, *DESKTOP)
            await do(browser.run, WITHOUT_FOLDERS, [str(tmp_path), str(Path.cwd())])
            picture = await do(browser.picture, 800)
            assert picture[8:12] == b"WEBP", path
            if os.environ.get("CODEMODE_PICTURES"):
                (IMAGES / f"{name}.webp").write_bytes(picture)
    assert linked - {kind_of(it) for it in VIEWS.values()} == set(), "views without a picture: add them to VIEWS"
    shown = set(re.findall(r"\(images/([\w-]+)\.webp\)", PAGES.read_text()))
    assert shown == set(VIEWS), "docs/pages.md shows each view"
    sizes = [(IMAGES / f"{name}.webp").stat().st_size for name in VIEWS]
    assert max(sizes) <= MAX_BYTES
    assert sum(sizes) <= MAX_BYTES_IN_ALL


@pytest.mark.parametrize("size", [DESKTOP, PHONE, (360, 740)])
async def test_no_view_is_wider_than_its_window_or_breaks_a_word(tmp_path: Path, size: tuple[int, int]) -> None:
    async with in_browser(tmp_path) as (browser, site):
        for path in VIEWS.values():
            await do(browser.open, f"{site.base}/{path}")
            await do(browser.resize, *size)
            with anyio.move_on_after(60):  # the page is laid out anew as its viewport and style sheet come
                while (width := await do(browser.run, "return document.documentElement.scrollWidth")) > size[0]:
                    await anyio.sleep(0.05)
            assert width <= size[0], path
            assert await do(browser.run, BROKEN_WORDS) == [], path


async def barriers(browser: Chromium, script: str) -> list[str]:
    """What axe-core finds on a page."""
    check = """
        const done = arguments[arguments.length - 1];
        axe.run().then((found) => done(found.violations.map((it) =>
            `${it.impact} ${it.id}: ${it.nodes.map((node) => node.html).join(" ").slice(0, 400)}`)));
    """
    await do(browser.run, script)
    found: list[str] = await do(browser.run_async, check)
    return found


@pytest.mark.network
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_that_keeps_people_out(tmp_path: Path, theme: str) -> None:
    try:
        folder = await do(npm.commands_of, "axe")
    except npm.Unavailable as unavailable:
        pytest.skip(str(unavailable))
    axe = (folder.parent / "axe-core" / "axe.min.js").read_text()
    async with in_browser(tmp_path) as (browser, site):
        await do(browser.use_theme, theme)
        for path in VIEWS.values():
            await do(browser.open, f"{site.base}/{path}")
            for size in (DESKTOP, PHONE):
                await do(browser.resize, *size)
                assert await barriers(browser, axe) == [], (path, size)
        await do(browser.run, "document.querySelector('nav').innerHTML += '<img src=x><input>'")
        assert len(await barriers(browser, axe)) >= 2, "control"
