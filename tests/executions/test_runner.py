"""A program ends with what it gave, whatever fails on our side while its end is recorded and cleaned up after; programs
of others go on. A service runs executions of a fake kind, with a recorder and layers that fail where a test says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from codemode_server.calls.events import CallEnded
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.calls import Allow, CallOutcome, CallStatus
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from codemode_server.executions import layers as layers_module
from codemode_server.executions import runner
from codemode_server.executions.artifacts import ArtifactStore
from codemode_server.executions.call_results import CallResults
from codemode_server.executions.execution import Execution
from codemode_server.executions.layers import ExecutionLayer, ExecutionLayers
from codemode_server.executions.runner import ExecutionRunner
from codemode_server.executions.service import ExecutionService
from codemode_server.sandbox.contract import Ending, Outcome, Reply


class Runs:
    """Each program gives 41; one whose code is `sleep` never ends."""

    async def prepare(self, execution: Execution) -> None: ...

    async def run(self, execution: Execution) -> Outcome:
        if execution.code == "sleep":
            await anyio.sleep_forever()
        return Outcome(Ending.RETURNED, value=41, value_form="json")


@dataclass
class Recorder:
    ended: list[ExecutionStatus] = field(default_factory=list)
    error: Exception | None = None

    def begin(self, execution: Execution) -> None: ...

    async def end(self, execution: Execution) -> None:
        if self.error is not None:
            raise self.error
        self.ended.append(execution.status)


class Journal:
    async def is_to_be_cancelled(self, execution_id: ExecutionId) -> bool:
        return False


@asynccontextmanager
async def service(
    folder: Path, layers: Sequence[ExecutionLayer] = (), recorder: Recorder | None = None, journal: object = None
) -> AsyncIterator[tuple[ExecutionService, Caller]]:
    config, artifacts = LiveConfig(), ArtifactStore(folder, 10**6, 10**6)
    fakes: dict[str, Any] = {"programs": Runs(), "direct_calls": Runs(), "recorder": recorder or Recorder()}
    running = ExecutionRunner(layers=ExecutionLayers(layers), artifacts=artifacts, config=config, **fakes)
    stored: Any = journal or Journal()
    with anyio.fail_after(60):
        async with ExecutionService(
            runner=running, artifacts=artifacts, config=config, journal=stored
        ).open() as opened:
            yield opened, Caller.of(Session("s"), config)


async def test_an_unexpected_error_while_an_end_is_recorded_ends_that_execution_alone(tmp_path: Path) -> None:
    recorder = Recorder()
    async with service(tmp_path, recorder=recorder) as (executions, caller):
        other = executions.start("sleep", caller)
        recorder.error = RuntimeError("a bug")
        failed = executions.start("1", caller)
        await failed.done.wait()
        assert failed.status is ExecutionStatus.CRASHED
        assert failed.outcome.error is not None
        assert failed.outcome.error.type == "SandboxFailed"
        recorder.error = None
        assert not other.done.is_set()


async def test_results_that_can_not_be_removed_do_not_change_how_a_program_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drop(_: CallResults) -> None:
        raise PermissionError("unlink")

    monkeypatch.setattr(CallResults, "drop", drop)
    async with service(tmp_path) as (executions, caller):
        execution = executions.start("1", caller)
        await execution.done.wait()
    assert (execution.status, execution.outcome.value) == (ExecutionStatus.SUCCEEDED, 41)


async def test_a_bug_while_results_are_stored_ends_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def write(_: CallResults) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(CallResults, "add", lambda *_: True)
    monkeypatch.setattr(CallResults, "write", write)
    async with service(tmp_path) as (executions, caller):
        execution = executions.start("sleep", caller)
        call: Any = SimpleNamespace(seq=1)
        answered = CallOutcome(CallStatus.SUCCEEDED, 1.0)
        executions.take_call_event(CallEnded(execution.calls, call, call, Allow(""), answered, None, Reply(1), call))
        await anyio.wait_all_tasks_blocked()
        assert not execution.done.is_set()
    assert execution.artifacts == {"calls": "internal error; the log has the details"}


async def test_a_bug_while_requests_to_cancel_are_looked_for_ends_no_program(tmp_path: Path) -> None:
    has_failed = anyio.Event()

    class Broken(Journal):
        async def is_to_be_cancelled(self, execution_id: ExecutionId) -> bool:
            has_failed.set()
            raise RuntimeError("a bug")

    async with service(tmp_path, journal=Broken()) as (executions, caller):
        other = executions.start("sleep", caller)
        await has_failed.wait()
        execution = executions.start("1", caller)
        await execution.done.wait()
        assert not other.done.is_set()
    assert execution.outcome.value == 41


async def test_a_layer_that_fails_in_its_clean_up_leaves_the_recorded_success(tmp_path: Path) -> None:
    """A model that is told that its program failed runs it again, and repeats what it wrote."""

    class Failing(ExecutionLayer):
        @asynccontextmanager
        async def around(self, execution: Execution) -> AsyncIterator[None]:
            yield
            raise RuntimeError("a span can't be ended")

    recorder = Recorder()
    async with service(tmp_path, [Failing()], recorder) as (executions, caller):
        execution = executions.start("1", caller)
        await execution.done.wait()
    assert recorder.ended == [ExecutionStatus.SUCCEEDED]
    assert (execution.status, execution.outcome.value) == (ExecutionStatus.SUCCEEDED, 41)
    (message,) = execution.calls.messages
    assert "the program itself ended as reported" in message


async def test_a_program_is_cancelled_at_once_while_a_layer_begins(tmp_path: Path) -> None:
    """Tracing waits there for its exporters."""

    class Waiting(ExecutionLayer):
        @asynccontextmanager
        async def around(self, execution: Execution) -> AsyncIterator[None]:
            await anyio.sleep_forever()
            yield

    async with service(tmp_path, [Waiting()]) as (executions, caller):
        execution = executions.start("1", caller)
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(30):
            await executions.cancel(execution.execution_id)
        assert (execution.done.is_set(), execution.status) == (True, ExecutionStatus.CANCELLED)


async def test_a_layer_that_hangs_or_fails_after_a_program_takes_nothing_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers_module, "CLEAN_UP_SECONDS", 0.1)
    monkeypatch.setattr(runner, "CLEAN_UP_SECONDS", 0.1)
    done = list[str]()

    class Layer(ExecutionLayer):
        def __init__(self, name: str) -> None:
            self._name = name

        @asynccontextmanager
        async def around(self, execution: Execution) -> AsyncIterator[None]:
            yield
            if self._name == "hangs":
                await anyio.sleep_forever()

        async def after(self, execution: Execution) -> None:
            if self._name == "hangs":
                await anyio.sleep_forever()
            if self._name == "fails":
                raise RuntimeError("a bug")
            done.append(execution.code)

    async with service(tmp_path, [Layer("fails"), Layer("hangs"), Layer("works")]) as (executions, caller):
        await executions.start("1", caller).done.wait()
        second = executions.start("2", caller)  # of the same session
        await second.done.wait()
        assert (second.outcome.value, done) == (41, ["1"])
