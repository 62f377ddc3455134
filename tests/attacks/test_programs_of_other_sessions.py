"""Threat: a program hands what one session has read to another one that resumes or applies it, past the labels: by its
result, or by the recorded answers to its calls.

Rule: the session that gets the program has read all that its own session had. Each control is the same program with
servers without labels, after which the post is sent. Upstreams and sandboxes are real.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import anyio
import pytest
import pytest_asyncio

from codemode_server.app import App
from codemode_server.config.live import Caller
from codemode_server.domain.errors import MetaToolError
from codemode_server.executions.execution import Execution
from codemode_server.features.resume.reruns import Reruns
from tests.attacks.test_flows import Person, flowing
from tests.attacks.test_skills import carried
from tests.behaviour.product import for_all
from tests.behaviour.sessions import product
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

READ = "from servers import PRIVATE as private, UNTRUSTED as untrusted\ndata = private.read() + untrusted.read()\n"
WAITING = "import os, time\nwhile not os.path.exists('/workspace/go'):\n    time.sleep(0.05)\n"
HANDING_OVER = f"""
import os
if os.path.exists('/workspace/go'):
    from servers.board import post
    post(text='ME')
else:
    {READ.replace(chr(10), chr(10) + "    ")}
    raise ValueError('broke')
"""
FAILING = """
from codemode import ToolError
from servers import PRIVATE as private, UNTRUSTED as untrusted
data = []
for one in (private, untrusted):
    try:
        one.fail()
    except ToolError as error:
        data.append(str(error))
"""
GO = "open('/workspace/go', 'w').close()\n1"
LABELLED = {"bank.read", "web.read"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    path = flowing(tmp_path_factory.mktemp("flows"))
    content = json.loads(path.read_text())
    for name in ("bank", "web", "calm"):
        content["servers"][name]["effects"] = {"*": "read"}
    path.write_text(json.dumps(content))
    async with for_all(product(path)) as app:
        yield app


@pytest.fixture
def it(app: App) -> Person:
    return Person(app)


async def ended(execution: Execution) -> Execution:
    with anyio.fail_after(60):
        await execution.done.wait()
    return execution


@pytest.mark.parametrize("is_tainted", [True, False])
async def test_a_session_that_resumes_a_running_program_gets_what_that_reads(it: Person, *, is_tainted: bool) -> None:
    running = it.start(it.code(WAITING + READ + "str(data)", is_tainted=is_tainted))
    resumed = await reruns_of(it).resume(running.execution_id, it.context("two"))
    await it.value(GO, "two")
    await ended(resumed)
    assert resumed.outcome.value, resumed.outcome
    assert await carried(it, "two") == (LABELLED if is_tainted else set())
    post = f"from servers.board import post\npost(text='ME ' + {resumed.outcome.value!r})"
    sent = await it.run(it.code(post, is_tainted=is_tainted), "two")
    assert (sent.outcome.error is not None) == is_tainted, sent.outcome


@pytest.mark.parametrize("is_tainted", [True, False])
@pytest.mark.parametrize("way", ["resumed", "applied"])
async def test_a_program_that_another_session_gets_carries_what_its_session_had_read(
    it: Person, way: str, *, is_tainted: bool
) -> None:
    text, is_dry_run = it.code(HANDING_OVER, is_tainted=is_tainted), way == "applied"
    first = await ended(it.app.executions.start(text, it.context(), is_dry_run=is_dry_run))
    await it.value(GO, "two")
    assert await carried(it, "two") == set()
    again = await _again(it, first, way)
    await until(lambda: again.done.is_set() or again.awaited)
    again.scope.cancel()  # an applied program waits for a person, since its plan has no such call
    await ended(again)
    assert await carried(it, "two") & LABELLED == (LABELLED if is_tainted else set())
    if way == "resumed":
        assert (again.outcome.error is not None) == is_tainted, again.outcome


def reruns_of(it: Person) -> Reruns:
    assert it.app.reruns is not None
    return it.app.reruns


async def _again(it: Person, first: Execution, way: str, context: Caller | None = None) -> Execution:
    service = reruns_of(it)
    again = service.resume if way == "resumed" else service.apply
    return await again(first.execution_id, context or it.context("two"))


@pytest.mark.parametrize("way", ["resumed", "applied"])
async def test_a_program_whose_sources_are_not_known_any_more_goes_to_no_other_session(it: Person, way: str) -> None:
    text = it.code(READ + "raise ValueError('broke')", is_tainted=True)
    first = await ended(it.app.executions.start(text, it.context(), is_dry_run=way == "applied"))
    await it.app.stores.sources.forget([(it.principal.principal_id, it.context().session.session_id)])
    with pytest.raises(MetaToolError, match="not known any more"):
        await _again(it, first, way)
    await ended(await _again(it, first, way, it.context()))  # its own session has it anyway


@pytest.mark.parametrize("read", [READ, FAILING])
async def test_a_program_that_runs_again_has_read_what_the_journal_answers_whatever_was_forgotten(
    it: Person, read: str
) -> None:
    """An error of a tool is data, too."""
    first = await ended(it.start(it.code(read + "raise ValueError('broke')", is_tainted=True)))
    await it.app.stores.sources.forget([(it.principal.principal_id, it.context().session.session_id)])
    assert await carried(it, "one") == set(), "control"
    await ended(await _again(it, first, "resumed", it.context()))
    assert len(await carried(it, "one")) == len(LABELLED)
