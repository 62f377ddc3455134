"""The page of a question: what a person sees and sends, and what others can't do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import httpx2
import pytest

from codemode_server.domain.approvals import AnswerScope, Question
from codemode_server.domain.tools import Effect
from codemode_server.web.approval_server import OpenPage, serving

QUESTION = Question(
    "github",
    "create-issue",
    "github.create_issue",
    Effect.WRITES,
    "rule 1 of permissions.rules (ask: github/*)",
    {"title": "Bug", "body": "x" * 1_000},
    done=("1. github.get_repo",),
    lines=("3: create_issue(title='Bug')",),
    pattern={"title": "Bug"},
    rule="- allow: github/create-issue",
)


@asynccontextmanager
async def at_page(question: Question = QUESTION) -> AsyncIterator[tuple[OpenPage, httpx2.AsyncClient]]:
    """The page of a question, and a browser."""
    async with serving() as server, httpx2.AsyncClient() as browser:
        with server.page(question) as opened:
            yield opened, browser


async def post(browser: httpx2.AsyncClient, opened: OpenPage, **form: str) -> httpx2.Response:
    return await browser.post(opened.address, data=form)


class TestThePage:
    async def test_shows_all_of_the_question(self) -> None:
        async with at_page() as (opened, browser):
            shown = (await browser.get(opened.address)).text
        for text in ("github.create_issue", "ask: github/*", "Bug", "x" * 1_000, "1. github.get_repo", "3: create_"):
            assert text in shown
        assert "<details>" in shown, "a long value is folded"

    async def test_shows_what_changed_in_the_tool_and_what_an_answer_for_the_session_leaves_open(self) -> None:
        changed = replace(QUESTION, changes=("-Send a mail.", "+Always copy eve."), pattern={"repo": "web"})
        async with at_page(changed) as (opened, browser):
            shown = (await browser.get(opened.address)).text
        assert "What differs" in shown
        assert '<ins class="whole">Always copy eve.</ins>' in shown
        assert "and any <code>title</code>" in shown
        async with at_page() as (opened, browser):
            assert "What differs" not in (await browser.get(opened.address)).text, "control"

    @pytest.mark.page_attack
    async def test_shows_hostile_text_as_text(self) -> None:
        hostile = "</pre><script>document.forms[0].submit()</script>\u202e\u200b"
        question = replace(QUESTION, reason=hostile, arguments={hostile: [hostile]}, done=(hostile,), rule=hostile)
        async with at_page(question) as (opened, browser):
            answer = await browser.get(opened.address)
        assert "<script" not in answer.text
        assert answer.text.count("&lt;script&gt;") == 6
        assert "\u202e" not in answer.text
        assert "\\u202e" in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]

    @pytest.mark.page_attack
    async def test_can_be_neither_framed_nor_cached(self) -> None:
        async with at_page() as (opened, browser):
            headers = (await browser.get(opened.address)).headers
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"


class TestAnAnswer:
    @pytest.mark.parametrize("scope", list(AnswerScope))
    async def test_allows_as_far_as_the_person_chose(self, scope: AnswerScope) -> None:
        async with at_page() as (opened, browser):
            await post(browser, opened, answer="allow", scope=scope.value, reason="")
            answer = await opened.wait()
        assert (answer.is_approved, answer.scope, answer.channel) == (True, scope, "page")

    async def test_refuses_with_the_words_of_the_person(self) -> None:
        async with at_page() as (opened, browser):
            await post(browser, opened, answer="refuse", scope="call", reason="Zu früh, bitte später")
            answer = await opened.wait()
        assert (answer.is_approved, answer.reason) == (False, "Zu früh, bitte später")

    @pytest.mark.page_attack
    async def test_stands_once_it_is_given(self) -> None:
        async with at_page() as (opened, browser):
            await post(browser, opened, answer="refuse")
            await post(browser, opened, answer="allow", scope="call")
            assert not (await opened.wait()).is_approved

    @pytest.mark.page_attack
    async def test_is_not_given_by_fetching_the_page(self) -> None:
        async with at_page() as (opened, browser):
            await browser.get(opened.address)
            await browser.get(f"{opened.address}?answer=allow&scope=call")
            await browser.head(opened.address)
            assert opened.answer is None

    @pytest.mark.page_attack
    @pytest.mark.parametrize(
        "form",
        [
            b"answer=allow&scope=session",
            b"answer=allow&scope=always",
            b"answer=allow",
            b"answer=allow&answer=allow&scope=call",
            b"answer=yes&scope=call",
            b"",
            b"answer=allow&scope=call&" + b"x" * 20_000,
            b"\xff",
        ],
    )
    async def test_that_the_page_does_not_offer_is_none(self, form: bytes) -> None:
        async with at_page(replace(QUESTION, pattern=None, rule=None)) as (opened, browser):
            assert (await browser.post(opened.address, content=form)).status_code == 400
            assert opened.answer is None
            await browser.post(opened.address, content=b"answer=allow&scope=call")  # control
            assert opened.answer is not None


@pytest.mark.page_attack
class TestOthers:
    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "https://evil.example"},
            {"Origin": "http://localhost:1"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Host": "evil.example"},
        ],
    )
    async def test_a_page_of_another_origin_can_not_answer(self, headers: dict[str, str]) -> None:
        form = {"answer": "allow", "scope": "call"}
        async with at_page() as (opened, browser):
            assert (await browser.post(opened.address, data=form, headers=headers)).status_code in (403, 421)
            assert opened.answer is None
            own = {"Origin": opened.address.rpartition("/approvals")[0], "Sec-Fetch-Site": "same-origin"}
            assert (await browser.post(opened.address, data=form, headers=own)).status_code == 200, "control"

    async def test_an_address_without_the_secret_shows_nothing(self) -> None:
        async with at_page() as (opened, browser):
            origin = opened.address.rpartition("/")[0]
            for address in (origin, f"{origin}/", f"{origin}/guess", opened.address[:-1], f"{opened.address}/"):
                answer = await browser.get(address)
                assert answer.status_code == 404
                assert "create_issue" not in answer.text
            assert (await browser.get(opened.address)).status_code == 200, "control"

    async def test_an_address_is_void_once_the_question_is_settled(self) -> None:
        async with serving() as server, httpx2.AsyncClient() as browser:
            with server.page(QUESTION) as opened:
                assert (await browser.get(opened.address)).status_code == 200, "control"
            assert (await browser.get(opened.address)).status_code == 404

    async def test_addresses_of_two_questions_are_unrelated(self) -> None:
        async with serving() as server:
            with server.page(QUESTION) as first, server.page(QUESTION) as second:
                assert len(first.address.rpartition("/")[2]) >= 43
                assert first.address != second.address


async def test_the_listener_ends_with_its_last_question() -> None:
    async with httpx2.AsyncClient() as browser:
        with anyio.fail_after(10):
            async with serving() as server:
                with server.page(QUESTION) as opened:
                    await browser.get(opened.address)
        with pytest.raises(httpx2.ConnectError):
            await browser.get(opened.address)
