"""The pages of `codemode-server ui` in a real Chromium: entrance, policy, keyboard, live parts and phones."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.domain.approvals import ApprovalAnswer, ApprovalId
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.records.reports import key_of
from codemode_server.support.browser import leading_page
from tests.answering import answering
from tests.web.chromium import DOWN, ENTER, SPACE, TAB, UP, Chromium, browsing, do, entered, need_chromium
from tests.web.pages import PROGRAM, TRIAGE, Pages, State, pages, question

pytestmark = pytest.mark.slow
TWO_REFRESHES = """
    const [done, send] = [arguments[0], fetch];
    let count = 0;
    window.fetch = async (...given) => {
      const answer = await send(...given);
      count += 1;
      if (count === 2) done();
      return answer;
    };
"""
"""Ends when the page was fetched twice, and has so been replaced once if it may be."""
WAS_SHOWN_LONG_AGO = "shownAt = -10000"
"""So that a test need not wait until a key is taken."""
PATHS = (
    "executions",
    "executions/x1",
    "executions/x1/calls/5",
    "approvals",
    "approvals/a1",
    "servers",
    "permissions",
    "savings",
    "privacy/EMAIL_1",
)


@pytest.fixture(scope="module", autouse=True)
def has_chromium() -> None:
    need_chromium()


@asynccontextmanager
async def in_browser(folder: Path, **sections: Any) -> AsyncIterator[tuple[Chromium, Pages, State]]:
    """The pages with a record, entered as a person does."""
    async with pages(folder, is_entered=False, **sections) as (site, state):
        token = await state.privacy_token("ann@example.org")
        await state.execution(
            "x1", PROGRAM, *TRIAGE, took=2_200, description=f"Files the oldest issue of {token} again"
        )
        await state.question(question(), at=time.time())
        await state.exchange("x1")
        await state.exchange("x2", results=0, all_definitions=50, at=time.time() - 3 * 86_400, server="s" * 60)
        async with entered(site) as browser:
            yield browser, site, state


async def focus(browser: Chromium, script: str) -> None:
    """Press Tab until the focused element `it` is the one that a script means."""
    await do(browser.run, "document.querySelector('main').focus()")
    for _ in range(30):
        await do(browser.type, TAB)
        if await do(browser.run, f"const it = document.activeElement; return {script}"):
            return
    raise AssertionError(f"nothing with {script!r} can be reached by Tab")


async def test_every_page_opens_without_a_violation_of_its_policy(tmp_path: Path) -> None:
    async with in_browser(tmp_path) as (browser, site, _):
        for path in PATHS:
            await do(browser.open, f"{site.base}/{path}")
            await do(browser.until, "body", "codemode-server")
            is_styled = "getComputedStyle(document.querySelector('header')).display"
            assert await do(browser.run, f"return {is_styled}") == "flex", path
        assert [it for it in await do(browser.console) if "favicon" not in it] == []


async def test_the_page_that_the_command_gives_to_a_browser_leads_in(tmp_path: Path) -> None:
    """It is a file, so the browser comes from another site; a cookie of this one must count all the same."""
    async with pages(tmp_path, is_entered=False) as (site, _):
        file = tmp_path / "open.html"
        file.write_text(leading_page(site.entrance, "Open"))
        async with browsing() as browser:
            await do(browser.open, file.as_uri())
            await do(browser.until, "h1", "Executions")
            assert site.entrance not in await do(lambda: browser.address)
            await do(browser.open, site.entrance)
            await do(browser.until, "h1", "Not admitted")


@contextmanager
def other_site(folder: Path) -> Iterator[str]:
    """Pages of an attacker, at another port of the address."""
    pages = {f"/{file.name}": file.read_bytes() for file in folder.iterdir()}
    with answering(lambda asked: (200, {"content-type": "text/html"}, pages.get(asked.path, b""))) as url:
        yield url


@pytest.mark.page_attack
async def test_a_page_is_not_shown_in_a_frame_of_another_site(tmp_path: Path) -> None:
    attacker = tmp_path / "attacker"
    attacker.mkdir()
    (attacker / "plain.html").write_text("<p>plain")
    framed = "return document.getElementById(arguments[0]).contentDocument?.body?.innerText ?? ''"
    async with in_browser(tmp_path) as (browser, site, _):
        frames = (
            f"<iframe id='page' src='{site.base}/approvals/a1'></iframe><iframe id='plain' src='plain.html'></iframe>"
        )
        (attacker / "frames.html").write_text(frames)
        with other_site(attacker) as origin:
            await do(browser.open, f"{origin}/frames.html")
            (refused,) = await do(refused_frames, browser)
            assert await do(browser.run, framed, "plain") == "plain", "control"
    assert refused.count("frame-ancestors 'none'") == 1


def refused_frames(browser: Chromium) -> list[str]:
    """What the console says about frames, once it says something: it does so a moment after the page has loaded."""
    until = time.monotonic() + 60
    while not (found := [it for it in browser.console() if "Framing" in it]):
        assert time.monotonic() < until, "no frame was refused"
        time.sleep(0.05)
    return found


@pytest.mark.page_attack
async def test_a_form_of_another_site_answers_nothing(tmp_path: Path) -> None:
    """Its author has even learnt the path and the token."""
    attacker = tmp_path / "attacker"
    attacker.mkdir()
    async with in_browser(tmp_path) as (browser, site, state):
        await do(browser.open, f"{site.base}/servers")
        token = await do(browser.run, "return document.querySelector('[name=token]').value")
        fields = {"token": token, "answer": "allow", "scope": "call"}
        inputs = "".join(f"<input name='{name}' value='{value}'>" for name, value in fields.items())
        form = f"<form id='form' method='post' action='{site.base}/approvals/a1'>{inputs}</form>"
        (attacker / "form.html").write_text(form)
        with other_site(attacker) as origin:
            await do(browser.open, f"{origin}/form.html")
            await do(browser.run, "document.getElementById('form').submit()")
            await do(browser.until, "body", "The form came from another page.")
        assert await state.approvals.answered([ApprovalId("a1")]) == []
        await do(browser.open, f"{site.base}/servers")
        await do(browser.run, "document.body.insertAdjacentHTML('beforeend', arguments[0])", form)
        await do(browser.run, "document.getElementById('form').submit()")
        await do(browser.until, "main", "No call waits")
        assert await state.approvals.answered([ApprovalId("a1")]) != [], "control"


async def test_a_question_is_answered_by_the_keyboard_alone(tmp_path: Path) -> None:
    async with in_browser(tmp_path) as (browser, site, state):
        await do(browser.open, f"{site.base}/approvals")
        await focus(browser, "it.href?.includes('/approvals/a1')")
        await do(browser.type, ENTER)
        await do(browser.until, "h1", "May a program call")
        await focus(browser, "it.name === 'reason'")
        await do(browser.type, f"wrong{SPACE}repository{TAB}{SPACE}")
        await do(browser.until, "main", "No call waits")
        (answered,) = await state.approvals.answered([ApprovalId("a1")])
    assert answered.answer is not None
    assert (answered.answer.is_approved, answered.answer.reason) == (False, "wrong repository")


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
async def test_allow_is_in_sight_without_scrolling(tmp_path: Path, width: int, height: int) -> None:
    long = question(tool="send", arguments={"body": "line\n" * 200, "title": "x" * 3_000})
    place = "const it = document.querySelector('[value=allow]').getBoundingClientRect(); return [it.top, it.bottom]"
    async with in_browser(tmp_path) as (browser, site, state):
        await state.approvals.answer(ApprovalId("a1"), ApprovalAnswer(False, channel="page", answered_at=1))
        await state.question(long, at=time.time(), name="a2")
        await do(browser.open, f"{site.base}/approvals")
        await do(browser.resize, width, height)
        for path in ("approvals", "approvals/a2"):
            await do(browser.open, f"{site.base}/{path}")
            await do(browser.until, "main", "title")
            top, bottom = await do(browser.run, place)
            assert 0 <= top < bottom <= height, path


async def test_questions_are_selected_by_the_arrows_and_answered_by_one_key(tmp_path: Path) -> None:
    async with in_browser(tmp_path) as (browser, site, state):
        await state.question(question(tool="send", title="mail.send"), at=time.time(), name="a2")
        await do(browser.open, f"{site.base}/approvals")
        await do(browser.resize, 1280, 720)
        await do(browser.until, "main", "mail.send")
        focused = "return document.activeElement.dataset.question?.slice(-2) ?? ''"
        await do(browser.type, "a")  # nothing has the focus
        for keys, expected in ((DOWN, "a1"), (DOWN, "a2"), (DOWN, "a2"), (UP, "a1"), (DOWN, "a2")):
            await do(browser.type, keys)
            assert await do(browser.run, focused) == expected
        await do(browser.run, WAS_SHOWN_LONG_AGO)
        await do(browser.type, "r")
        await do(browser.until, "title", "(1) Approvals")
        await do(browser.type, DOWN)
        await do(browser.run, WAS_SHOWN_LONG_AGO)
        await do(browser.type, "a")
        await do(browser.until, "main", "No call waits")
        answered = await state.approvals.answered([ApprovalId("a1"), ApprovalId("a2")])
    assert {it.approval_id: it.answer and it.answer.is_approved for it in answered} == {"a1": True, "a2": False}


@pytest.mark.page_attack
async def test_a_key_allows_nothing_that_is_not_in_sight(tmp_path: Path) -> None:
    """A long text could hide what a call does; the page of the question is opened instead."""
    for name, text in (("lines", "line\n" * 200), ("folded", "x" * 3_000)):
        (folder := tmp_path / name).mkdir()
        async with in_browser(folder) as (browser, site, state):
            await state.approvals.answer(ApprovalId("a1"), ApprovalAnswer(False, channel="page", answered_at=1))
            await state.question(question(tool="send", arguments={"text": text}), at=time.time(), name="a2")
            await do(browser.open, f"{site.base}/approvals")
            await do(browser.until, "main", "Allow")
            await do(browser.type, DOWN)
            await do(browser.run, WAS_SHOWN_LONG_AGO)
            await do(browser.type, "a")
            await do(browser.until, "h1", "May a program call")
            assert await state.approvals.answered([ApprovalId("a2")]) == []


@pytest.mark.page_attack
async def test_a_button_that_has_just_come_takes_no_click_and_no_key(tmp_path: Path) -> None:
    """The click may have been meant for what was in its place, such as the button of the question before."""
    come_anew = """
        const list = document.getElementById("approvals");
        list.replaceWith(list.cloneNode(true));
        shownAt = performance.now();
        const button = document.querySelector("[value=allow]"), place = button.getBoundingClientRect();
        const there = document.elementFromPoint(place.left + 5, place.top + 5);
        document.querySelector("[data-question]").focus();
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "a", bubbles: true}));
        return there === button;
    """
    takes_it = "return getComputedStyle(document.querySelector('[value=allow]')).pointerEvents"
    async with in_browser(tmp_path) as (browser, site, state):
        await do(browser.open, f"{site.base}/approvals")
        await do(browser.until, "main", "Allow")
        assert not await do(browser.run, come_anew)
        with anyio.fail_after(60):
            while await do(browser.run, takes_it) != "auto":
                await anyio.sleep(0.05)
        assert await state.approvals.answered([ApprovalId("a1")]) == []
        await do(browser.click, "[value=allow]")
        await do(browser.until, "main", "No call waits")
        assert await state.approvals.answered([ApprovalId("a1")]) != [], "control"


async def test_a_question_that_comes_is_in_the_title_and_in_a_notification_without_its_texts(tmp_path: Path) -> None:
    """It may be seen by others, on a locked screen."""
    unseen = """
        window.said = [];
        window.Notification = class { constructor(...given) { said.push(given); } static permission = "granted"; };
        document.hasFocus = () => false;
    """
    async with in_browser(tmp_path) as (browser, site, state):
        await do(browser.open, f"{site.base}/approvals")
        await do(browser.until, "title", "(1) Approvals")
        await do(browser.run, unseen)
        await state.question(question(tool="send", title="mail.send"), at=time.time(), name="a2")
        await do(browser.until, "title", "(2) Approvals")
        await do(browser.run_async, TWO_REFRESHES)
        said = await do(browser.run, "return said")
    assert [it[1]["body"] for it in said] == ["2 calls wait for your approval"]


async def test_what_is_read_stays_as_it_is_while_the_page_follows(tmp_path: Path) -> None:
    async with in_browser(tmp_path) as (browser, site, state):
        await state.execution("x3", "line\n" * 200, at=time.time(), status=ExecutionStatus.RUNNING)
        await do(browser.open, f"{site.base}/executions")
        await do(browser.run, "document.querySelector('#x3 a').focus()")
        await state.execution("x4", "1", at=time.time() + 1)
        await do(browser.until, "#executions", "x4")
        assert await do(browser.run, "return document.activeElement.closest('tr')?.id") == "x3", "its row has moved"
        await do(browser.open, f"{site.base}/executions/x3")
        scrolled = "const it = document.querySelector('.code'); it.scrollTop ||= arguments[0]; return it.scrollTop"
        with anyio.fail_after(60):  # the page is laid out anew as its style sheet comes
            while await do(browser.run, scrolled, 300) != 300:
                await anyio.sleep(0.05)
        state.journal.note_answer(ExecutionId("x3"), "value: 7")
        await state.journal.end_execution(ExecutionId("x3"), ExecutionStatus.FAILED, error=None, milliseconds=1_000)
        await do(browser.until, "#made", "value: 7")
        assert await do(browser.run, scrolled, 0) == 300


async def test_no_other_button_comes_under_the_pointer(tmp_path: Path) -> None:
    async with in_browser(tmp_path) as (browser, site, state):
        await state.execution("x2", "1", at=time.time(), status=ExecutionStatus.RUNNING)
        await do(browser.open, f"{site.base}/executions/x2")
        await do(browser.point, "#execution button")
        await state.journal.end_execution(ExecutionId("x2"), ExecutionStatus.FAILED, error=None, milliseconds=1_000)
        await do(browser.run_async, TWO_REFRESHES)
        assert "Cancel" in await do(browser.text, "#execution")
        await do(browser.point, "h1")
        await do(browser.until, "#execution", "failed")
        assert "Cancel" not in await do(browser.text, "#execution")


async def test_an_entry_is_edited_with_a_browser_and_saved_once_it_was_shown(tmp_path: Path) -> None:
    file, spare = tmp_path / "upstream.yaml", f"servers/{key_of('spare')}"
    async with in_browser(tmp_path) as (browser, site, _):
        await do(browser.open, f"{site.base}/{spare}")
        await do(browser.click, f"a[href$='{spare}/edit']")
        await do(browser.until, "h1", "Edit spare")
        await do(browser.run, "document.querySelector('[name=line]').focus()")
        await do(browser.type, "/planned/")
        await do(browser.click, "form button.main")
        await do(browser.until, "h1", "Change spare")
        assert "/planned" in await do(browser.text, "ins")
        assert "/planned" not in file.read_text()
        await do(browser.click, "form button.main")
        await do(browser.until, "h1", "spare")
        await do(browser.until, "p[role=status]", "Saved in")
        assert "/planned" in file.read_text()
        assert [it for it in await do(browser.console) if "favicon" not in it] == []
