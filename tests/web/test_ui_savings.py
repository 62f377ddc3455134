"""The page of savings: what programs saved, or did not, by day, server and execution, with the method beside it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from codemode_server.domain.savings import Savings, TokenUsage, UsageRow
from codemode_server.web import charts
from tests.web.pages import pages

DAY = 86_400.0


async def test_a_loss_is_shown_as_one(tmp_path: Path) -> None:
    async with pages(tmp_path) as (site, state):
        await state.exchange("x1", results=0, all_definitions=50)
        page = await site.text("savings")
    assert '<span class="loss">about 285 tokens more than direct calls</span>' in page
    assert page.count('<span class="loss">-285</span>') == 2, "of the day and of the execution"


def usage(spent: int, direct: int) -> TokenUsage:
    return TokenUsage(exchanges=1, sent=spent, results=direct)


def test_columns_have_a_place_for_each_day_and_the_highest_is_full() -> None:
    now = datetime(2026, 5, 4, 12).astimezone().timestamp()
    rows = (UsageRow("2026-05-04", now, usage(50, 200)), UsageRow("2026-05-02", now - 2 * DAY, usage(100, 1)))
    chart = charts.columns(Savings(now - 3 * DAY, usage(150, 201), days=rows), now)
    assert [it.day for it in chart.columns] == ["2026-05-01", "2026-05-02", "2026-05-03", "2026-05-04"]
    assert [(it.direct, it.spent) for it in chart.columns] == [(0.0, 0.0), (1.0, 50.0), (0.0, 0.0), (100.0, 25.0)]
    assert chart.highest == 200
    assert all(it.left >= 0 and it.left + 2 * it.width <= charts.WIDTH for it in chart.columns)
