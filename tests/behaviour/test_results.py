"""What a program gives back reaches the host whole, or by a name under which the rest is had: through the whole product
and the real client, in memory or over stdio, in both eras of the protocol.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from mcp.types import (
    BlobResourceContents,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from tests.behaviour.product import Answer, Host, configuration, in_memory, office, over_stdio
from tests.vocabulary import tokens_of

pytestmark = pytest.mark.slow

EACH_WAY = pytest.mark.parametrize(("over", "mode"), [(in_memory, "auto"), (over_stdio, "legacy")])
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
ROWS = "[{'n': n, 'name': f'row {n}', 'note': 'x' * 20} for n in range(10_000)]"


def configured(folder: Path, **limits: Any) -> Path:
    return configuration(folder, {}, limits=limits)


async def resource(host: Host, uri: str) -> TextResourceContents | BlobResourceContents:
    (content,) = (await host.client.read_resource(uri)).contents
    return content


@EACH_WAY
async def test_an_image_reaches_the_host_as_one_byte_for_byte(tmp_path: Path, over: Any, mode: str) -> None:
    async with over(configured(tmp_path), mode=mode) as host:
        answer = await host.run(f"from codemode import show\nshow({PNG!r}, name='a.png')\n7")
    text, image = answer.result.content
    assert isinstance(text, TextContent)
    assert isinstance(image, ImageContent)
    assert (base64.b64decode(image.data), image.mime_type) == (PNG, "image/png")
    assert answer.value == 7
    assert answer.content["shown"] == [f"a.png: image/png, {len(PNG):,} bytes"]
    assert text.text.split("\n") == ["value:", "7", f"[shown: a.png: image/png, {len(PNG):,} bytes]"]


@EACH_WAY
async def test_an_image_past_the_budget_is_a_link_that_the_host_can_read(tmp_path: Path, over: Any, mode: str) -> None:
    async with over(configured(tmp_path, shown_bytes=1_000), mode=mode) as host:
        answer = await host.run(f"from codemode import show\nshow({PNG!r}, name='a.png')")
        _, link = answer.result.content
        assert isinstance(link, ResourceLink)
        content = await resource(host, link.uri)
        assert isinstance(content, BlobResourceContents)
        assert (base64.b64decode(content.blob), content.mime_type) == (PNG, "image/png")
        name = link.uri.removeprefix("codemode://results/")
        assert f'results["{name}"]' in answer.text
        back = await host.run(f"from codemode import results\nresults[{name!r}].data == {PNG!r}")
        assert back.value is True


@EACH_WAY
async def test_ten_thousand_rows_are_cut_kept_and_read_by_the_next_program(
    tmp_path: Path, over: Any, mode: str
) -> None:
    async with over(configured(tmp_path), mode=mode) as host:
        first = await host.run(ROWS)
        name = first.content["execution_id"]
        *rows, more = first.value
        assert rows == [{"n": n, "name": f"row {n}", "note": "x" * 20} for n in range(len(rows))]
        assert more == f"… {10_000 - len(rows):,} more items"
        assert f'results["{name}"]' in first.text
        later = await host.run(
            f"from codemode import results\nrows = results[{name!r}]\n"
            f"[len(rows), rows[-1]['n'], results.last == rows, list(results) == [{name!r}]]"
        )
        assert later.value == [10_000, 9_999, True, True]
        content = await resource(host, f"codemode://results/{name}")
        assert isinstance(content, TextResourceContents)
        assert content.mime_type == "application/json"
        assert len(json.loads(content.text)) == 10_000


LARGE = {
    "value": "[{'k': chr(0x1F600) * 50, 'q': chr(34) * 50} for n in range(9_000)]",
    "text": "'10 € für die Größe, ' * 150_000",
    "output": "for n in range(60_000): print(chr(34) * 60)",
    "all": "import sys\nprint('a\\n' * 500_000)\nprint('b\\n' * 500_000, file=sys.stderr)\n['c' * 99] * 9_000",
    "shown": "from codemode import show\nshow(b'\\x89PNG\\r\\n\\x1a\\n' + bytes(580_000))\n'x ' * 900_000",
}


@pytest.mark.parametrize("what", LARGE)
async def test_no_result_is_larger_than_hosts_take_whatever_the_limits(tmp_path: Path, what: str) -> None:
    """1 MB altogether in Claude Desktop; by default also within what Claude Code gives a model without a warning."""
    for folder, limits in ((tmp_path / "a", {}), (tmp_path / "b", {"output_tokens": 10**6})):
        folder.mkdir()
        async with in_memory(configured(folder, **limits)) as host:
            answer = await host.run(LARGE[what])
        assert len(as_sent(answer)) < 1_000_000
        assert answer.content["status"] == "succeeded"
        if not limits:
            assert len(answer.text) < 40_000
            assert tokens_of(answer.text) < 10_000


def as_sent(answer: Answer) -> bytes:
    return answer.result.model_dump_json(by_alias=True, exclude_none=True).encode()


READ = "from servers.github import list_issues, boom\n"
ENDINGS = {
    "error": ("1 / 0", {}),
    "failed call": ("boom()", {}),
    "time": ("while True: pass", {"wall_seconds": 1}),
    "calls": ("while True: list_issues(repo='c')", {"calls": 2}),
}


def call_of(answer: Answer, number: int) -> str:
    return f'results["{answer.content["execution_id"]}/calls/{number}"]'


@pytest.mark.parametrize("ending", ENDINGS)
async def test_the_results_of_calls_are_read_by_the_next_program_however_it_failed(tmp_path: Path, ending: str) -> None:
    last, limits = ENDINGS[ending]
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"), limits=limits)) as host:
        control = await host.run(READ + "list_issues(repo='b')")
        failed = await host.run(READ + f"a = list_issues(repo='a')\nb = list_issues(repo='b')\n{last}")
        assert failed.content["status"] in ("failed", "limit_exceeded")
        assert '[2] github.list_issues(repo="b") succeeded' in failed.text
        assert f"from codemode import results; {call_of(failed, 1)}" in failed.text
        read = await host.run(f"from codemode import results\n{call_of(failed, 2)}")
        assert read.value == control.value
        name = failed.content["execution_id"]
        for key, said in {
            name: f"{name} failed and has no value; there is {name}/calls/N for N = 1, 2",
            f"{name}/calls/9": f"call 9 of {name} has no stored result; there is {name}/calls/N for N = 1, 2",
            "x9": f"the last: '{control.content['execution_id']}', '{name}/calls/2'",
        }.items():
            assert said in (await host.run(f"from codemode import results\nresults[{key!r}]")).text
        assert len(host.reached("list_issues")) == 3, "nothing was called again"
