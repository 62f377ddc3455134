"""Whose program runs next: in order within a session, fairly between sessions, and within `limits.programs`."""

from __future__ import annotations

from functools import partial

import anyio
import anyio.abc

from codemode_server.config.settings import LimitSettings
from codemode_server.domain.errors import LimitExceeded
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Owner, Principal, Session
from codemode_server.executions.scheduling import Turns
from tests.waiting import until


def owner(session: str, principal: str = "default") -> Owner:
    return Owner(Principal(PrincipalId(principal)), Session(session))


ONE, OTHER, THIRD = owner("one"), owner("other"), owner("third")


class Programs:
    """Programs that run until they are told to end."""

    def __init__(self, programs: int, queue_seconds: float = 30) -> None:
        self.limits = LimitSettings(programs=programs, queue_seconds=queue_seconds)
        self.now = 0.0
        self.turns = Turns(lambda: self.now)
        self.running: list[str] = []
        self.refused: list[str] = []
        self.waited: list[str] = []
        self._ends: dict[str, anyio.Event] = {}

    async def run(self, name: str, session: Owner) -> None:
        self._ends[name] = anyio.Event()
        try:
            async with self.turns.turn(session, self.limits, partial(self.waited.append, name)):
                self.running.append(name)
                await self._ends[name].wait()
                self.running.remove(name)
        except LimitExceeded:
            self.refused.append(name)

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await anyio.wait_all_tasks_blocked()


async def started(programs: Programs, tasks: anyio.abc.TaskGroup, session: Owner, *names: str) -> None:
    for name in names:
        tasks.start_soon(programs.run, name, session)
        await anyio.wait_all_tasks_blocked()


async def test_one_session_alone_takes_all_places_and_then_waits_in_order() -> None:
    programs = Programs(2)
    async with anyio.create_task_group() as tasks:
        await started(programs, tasks, ONE, "a", "b", "c", "d")
        assert programs.running == ["a", "b"]
        assert programs.waited == ["c", "d"]
        await programs.end("b")
        assert programs.running == ["a", "c"]
        tasks.cancel_scope.cancel()


async def test_whatever_one_session_sends_anothers_program_starts_at_once() -> None:
    programs = Programs(4)
    async with anyio.create_task_group() as tasks:
        await started(programs, tasks, OTHER, "before")
        await programs.end("before")
        await started(programs, tasks, ONE, *(f"a{n}" for n in range(50)))
        assert programs.running == ["a0", "a1", "a2"]
        await started(programs, tasks, OTHER, "b")
        assert programs.running == ["a0", "a1", "a2", "b"]
        tasks.cancel_scope.cancel()


async def test_no_place_is_kept_for_a_session_that_has_long_been_idle_or_ended_with_its_request() -> None:
    """The control of the test above."""
    programs = Programs(2)
    async with anyio.create_task_group() as tasks:
        await started(programs, tasks, OTHER, "before")
        await started(programs, tasks, Owner(ONE.principal, Session("passing", is_ephemeral=True)), "passing")
        await programs.end("before")
        await programs.end("passing")
        programs.now = 901
        await started(programs, tasks, ONE, "a", "b")
        assert programs.running == ["a", "b"]
        tasks.cancel_scope.cancel()


async def test_a_place_is_kept_for_a_session_whose_host_is_connected_whenever_it_ran_something() -> None:
    programs = Programs(2)
    programs.turns.attached = {"one", "other"}
    async with anyio.create_task_group() as tasks:
        await started(programs, tasks, ONE, "a", "b")
        await started(programs, tasks, OTHER, "c")
        assert programs.running == ["a", "c"]
        tasks.cancel_scope.cancel()


async def test_of_those_that_wait_the_session_with_the_fewest_running_is_next() -> None:
    programs = Programs(2)
    async with anyio.create_task_group() as tasks:
        await started(programs, tasks, ONE, "a", "b", "c")
        await started(programs, tasks, OTHER, "d")
        assert programs.running == ["a", "b"]
        await programs.end("a")
        assert programs.running == ["b", "d"]
        tasks.cancel_scope.cancel()


async def test_a_program_that_waited_too_long_is_refused_and_leaves_the_queue() -> None:
    programs = Programs(1, queue_seconds=0.05)
    async with anyio.create_task_group() as tasks:
        await started(programs, tasks, ONE, "a", "b")
        await until(lambda: programs.refused == ["b"])
        await programs.end("a")
        await started(programs, tasks, THIRD, "c")
        assert programs.running == ["c"]
        tasks.cancel_scope.cancel()


def test_a_principal_has_no_more_suspended_programs_than_it_may_have_running() -> None:
    """They hold a sandbox each, and all of them may run on at the same moment."""
    turns, limits = Turns(), LimitSettings(programs=4, principal_programs=1)
    alice, bob = owner("a", "alice"), owner("b", "bob")
    assert turns.suspend(alice, limits)
    assert not turns.suspend(owner("another", "alice"), limits)
    assert turns.suspend(bob, limits), "the control: another principal's"
    turns.go_on(alice)
    assert turns.suspend(alice, limits), "the control: one that runs on counts no more"
