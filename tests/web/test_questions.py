"""The page of one question: what a person sees and sends, and what others can't do with it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx2
import pytest

from codemode_server.domain.approvals import AnswerScope, Question
from codemode_server.domain.tools import Effect
from codemode_server.features.pages.questions import OpenPage, serving
from codemode_server.features.pages.rendering import difference_html

QUESTION = Question(
    "github",
    "create-issue",
    "github.create_issue",
    Effect.WRITES,
    "rule 1 of permissions.rules (ask: github/*)",
    {"title": "Bug", "body": "x" * 5_000},
    done=("1. github.get_repo",),
    lines=("3: create_issue(title='Bug')",),
    pattern={"title": "Bug"},
    has_session=True,
    readers=("create-issue", "list_issues"),
    rule="- allow: github/create-issue",
)
ALLOW = {"answer": "allow", "scope": "call"}


@asynccontextmanager
async def at_page(question: Question = QUESTION) -> AsyncIterator[tuple[OpenPage, httpx2.AsyncClient]]:
    """The page of a question, and a browser."""
    async with serving(question) as opened, httpx2.AsyncClient() as browser:
        yield opened, browser


async def shown(question: Question) -> str:
    async with at_page(question) as (opened, browser):
        return (await browser.get(opened.address)).text


async def test_it_shows_all_of_the_question() -> None:
    text = await shown(QUESTION)
    for part in ("github.create_issue", "ask: github/*", "Bug", "x" * 5_000, "1. github.get_repo", "3: create_"):
        assert part in text
    assert "<details>" in text, "a long value is folded"
    assert "What differs" not in text


async def test_it_shows_what_changed_in_the_tool_and_what_an_answer_for_the_session_leaves_open() -> None:
    text = await shown(replace(QUESTION, changes=("-Send a mail.", "+Always copy eve."), pattern={"title": "Bug"}))
    assert "What differs" in text
    assert "<ins>Always copy eve.</ins>" in text
    assert "and any <code>body</code>" in text


@pytest.mark.page_attack
async def test_hostile_text_is_text_and_the_page_loads_nothing() -> None:
    hostile = "</pre><script>document.forms[0].submit()</script>\u202e\u200b"
    question = replace(QUESTION, reason=hostile, arguments={hostile: [hostile]}, done=(hostile,), rule=hostile)
    async with at_page(question) as (opened, browser):
        answer = await browser.get(opened.address)
    assert "<script" not in answer.text
    assert answer.text.count("&lt;script&gt;") == 6
    assert "\u202e" not in answer.text
    assert "\\u202e" in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; form-action 'self'")
    assert "script-src" not in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("scope", list(AnswerScope))
async def test_the_person_allows_a_call_as_far_as_they_choose(scope: AnswerScope) -> None:
    """Or says that it arrived, with its result."""
    question = replace(QUESTION, is_unanswered=scope is AnswerScope.ARRIVED, reads=("github.get_issue(number=7)",))
    async with at_page(question) as (opened, browser):
        assert "github.get_issue(number=7)" in (await browser.get(opened.address)).text
        await browser.post(opened.address, data={"answer": "allow", "scope": scope.value, "result": '{"number": 7}'})
        answer = await opened.wait()
    assert (answer.is_approved, answer.scope, answer.channel) == (True, scope, "page")
    assert answer.result == ({"number": 7} if question.is_unanswered else None)


@pytest.mark.page_attack
async def test_the_first_answer_stands_with_the_words_of_the_person() -> None:
    async with at_page() as (opened, browser):
        await browser.post(opened.address, data={"answer": "refuse", "scope": "call", "reason": "Zu früh"})
        await browser.post(opened.address, data=ALLOW)
        answer = await opened.wait()
    assert (answer.is_approved, answer.reason) == (False, "Zu früh")


@pytest.mark.page_attack
async def test_fetching_the_page_is_no_answer() -> None:
    async with at_page() as (opened, browser):
        await browser.get(opened.address)
        await browser.get(f"{opened.address}?answer=allow&scope=call")
        await browser.head(opened.address)
        assert opened.answer is None


@pytest.mark.page_attack
async def test_a_form_that_the_page_does_not_offer_is_no_answer() -> None:
    forms = [
        *(b"answer=allow&scope=session", b"answer=allow&scope=always", b"answer=allow", b"answer=yes&scope=call"),
        *(b"answer=allow&answer=allow&scope=call", b"", b"answer=allow&scope=call&" + b"x" * 20_000, b"\xff"),
    ]
    async with at_page(replace(QUESTION, pattern=None, rule=None)) as (opened, browser):
        for form in forms:
            assert (await browser.post(opened.address, content=form)).status_code == 400, form[:40]
        assert opened.answer is None
        await browser.post(opened.address, content=b"answer=allow&scope=call")
        assert opened.answer is not None, "control"


@pytest.mark.page_attack
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
    ],
)
async def test_a_page_of_another_origin_can_not_answer(headers: dict[str, str]) -> None:
    async with at_page() as (opened, browser):
        assert (await browser.post(opened.address, data=ALLOW, headers=headers)).status_code in (403, 421)
        assert opened.answer is None
        own = {"Origin": opened.address.rpartition("/approvals")[0], "Sec-Fetch-Site": "same-origin"}
        assert (await browser.post(opened.address, data=ALLOW, headers=own)).status_code == 200, "control"


@pytest.mark.page_attack
async def test_the_address_is_a_secret_and_ends_with_the_question() -> None:
    async with at_page() as (opened, browser):
        origin = opened.address.rpartition("/")[0]
        assert len(opened.address.rpartition("/")[2]) >= 43
        for address in (origin, f"{origin}/", f"{origin}/guess", opened.address[:-1], f"{opened.address}/"):
            answer = await browser.get(address)
            assert answer.status_code == 404
            assert "create_issue" not in answer.text
        assert (await browser.get(opened.address)).status_code == 200, "control"
        async with at_page() as (other, _):
            assert other.address != opened.address
        with pytest.raises(httpx2.ConnectError):
            await browser.get(other.address)


def test_a_line_is_removed_added_or_a_title() -> None:
    shown = difference_html(["differs: the description", "- a: 1 < 2", "+ b"])
    assert re.findall("<li class=.(\\w+).>", shown) == ["part", "removed", "added"]
    assert "differs: the description" in shown
    assert "<del> a: 1 &lt; 2</del>" in shown
    assert "<ins> b</ins>" in shown


@pytest.mark.page_attack
def test_hostile_text_stays_text_and_cannot_end_a_mark() -> None:
    shown = difference_html(["- a: </del></li><script>x</script>\u202e", "+ a: <b></ins><img src=x onerror=y>\u200b"])
    tags = set(re.findall(r"<(/?\w+)", shown))
    assert tags == {"ul", "/ul", "li", "/li", "span", "/span", "del", "/del", "ins", "/ins"}
    assert "&lt;script&gt;" in re.sub("</?del>", "", shown), "control"
    assert "\u202e" not in shown
    assert "\\u202e" in re.sub("</?del>", "", shown)
