"""Where threads are real, one reads the answers while any number of others send; none sees a state of another's."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import queue
import random
import re
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.contract import Limits, Outcome, Program
from codemode_server.sandbox.guest import calls as guest_calls
from codemode_server.sandbox.guest import earlier_programs, encoded, loops
from codemode_server.sandbox.guest import link as guest_link
from codemode_server.sandbox.guest import output as guest_output
from codemode_server.sandbox.guest.calls import Calls, PendingCall
from codemode_server.sandbox.guest.earlier_programs import Checkpoint
from codemode_server.sandbox.guest.link import Link, to_json
from codemode_server.sandbox.guest.mapping import PendingMap, prepared
from codemode_server.sandbox.guest.output import Output
from codemode_server.sandbox.guest.threads import Loop
from codemode_server.sandbox.guest.value_descriptions import SAMPLES
from tests.sandbox.lab import HEAD, Tools
from tests.sandbox.native import run_natively

CALLS_IN_FLIGHT = 50


class Host:
    """Answers each request with its arguments, all that have come at once, and counts those that wait."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.most: dict[str, int] = {"call": 0, "other": 0}
        self._waiting = {"call": 0, "other": 0}

    def send(self, text: str) -> None:
        request = json.loads(text)
        kind = "call" if request["op"] == "call" else "other"
        self._waiting[kind] += 1
        self.most[kind] = max(self.most[kind], self._waiting[kind])
        self._requests.put(request)

    def receive(self, timeout_s: float | None) -> str:
        request = self._requests.get(timeout=timeout_s)
        self._waiting["call" if request["op"] == "call" else "other"] -= 1
        return json.dumps({"id": request["id"], "ok": True, "value": request.get("arguments")})


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


LIMITS = {"call_bytes": 1000, "calls_in_flight": CALLS_IN_FLIGHT, "value_bytes": 1000}


def linked() -> tuple[Host, Link]:
    host = Host()
    link = Link(host)
    link.begin({"execution_id": "e", "limits": LIMITS})
    return host, link


def at_once(*functions: Callable[[], Any]) -> list[Any]:
    """What functions give that run in threads at the same time; one that hangs keeps the tests from nothing."""
    given: list[Future[Any]] = [Future() for _ in functions]

    def run(function: Callable[[], Any], result: Future[Any]) -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised below
            result.set_exception(error)

    for function, result in zip(functions, given, strict=True):
        threading.Thread(target=run, args=(function, result), daemon=True).start()
    return [result.result(30) for result in given]


@pytest.mark.usefixtures("hasty_threads")
def test_threads_that_send_while_answers_arrive_each_get_their_own() -> None:
    host, link = linked()
    each, senders = 1500, 4

    def ask(sender: int) -> list[Future[Any]]:
        calls = []
        for number in range(each):
            calls.append(link.call("shop", "buy", json.dumps([sender, number])))
            if number % 100 == 0:
                calls.append(link.request("resources", arguments=[sender, number]))
        return calls

    def take() -> None:
        for _ in range(senders * (each + each // 100)):
            link.pump(30)

    with ThreadPoolExecutor(senders + 1) as pool:
        reading = pool.submit(take)
        calls = [pool.submit(ask, sender) for sender in range(senders)]
        answers = [[call.result(30)[0] for call in asked.result(30)] for asked in calls]
        reading.result(30)
    for sender, given in enumerate(answers):
        numbers = [number for number in range(each) for _ in range(2 if number % 100 == 0 else 1)]
        assert given == [[sender, number] for number in numbers]
    assert link.call_count == senders * each
    asked = [[sender, number] for sender in range(senders) for number in range(each)]
    assert link.call_characters > 2 * sum(map(len, map(json.dumps, asked)))
    assert host.most["call"] <= CALLS_IN_FLIGHT
    assert host.most["other"] <= 1


class TestWhatTheProgramPrints:
    """`Output`, which any thread writes to."""

    class Host:
        def __init__(self) -> None:
            self.texts: list[str] = []

        def send(self, text: str) -> None:
            self.texts.append(json.loads(text).get("text", text))

        def receive(self, timeout_s: float | None) -> str | None:
            raise AssertionError

    def test_what_one_thread_prints_while_another_sends_comes_after_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        has_begun, may_go_on = threading.Event(), threading.Event()

        def encode(value: Any, *more: Any) -> str:
            if value.get("text") == "first ":
                has_begun.set()
                may_go_on.wait(30)
            return to_json(value, *more)

        for module in (guest_link, guest_output):
            monkeypatch.setattr(module, "to_json", encode, raising=False)
        host = self.Host()
        output = Output(Link(host), "stdout")

        def write_second() -> None:
            has_begun.wait(30)
            output.write("second ")
            may_go_on.set()
            output.write("third")

        at_once(lambda: output.write("first "), write_second)
        assert "".join(host.texts) == "first second third"

    def test_the_last_frame_is_sent_and_nothing_follows_although_another_thread_is_sending(self) -> None:
        class SlowHost(self.Host):  # type: ignore[name-defined,misc]
            def send(self, text: str) -> None:
                sending.set()
                may_go_on.wait(30)
                super().send(text)

        sending, may_go_on = threading.Event(), threading.Event()
        host = SlowHost()
        link = Link(host)
        output = Output(link, "stdout")
        writing = threading.Thread(target=output.write, args=("first",))
        writing.start()
        sending.wait(30)
        ending = threading.Thread(target=link.send_last, args=("{}",))
        ending.start()
        ending.join(0.2)
        assert ending.is_alive()
        may_go_on.set()
        writing.join(30)
        ending.join(30)
        output.write("late")
        assert host.texts == ["first", "{}"]


class TestTheResultOfACall:
    def test_it_is_remembered_for_hints_before_the_program_changes_it(self) -> None:
        _, link = linked()
        call = Calls(link).prepare("shop", "buy_and_change", {"id": 1}, "buy")()
        call.add_done_callback(lambda done: done.result().clear())
        link.pump(30)
        assert SAMPLES.pop("buy_and_change") == {"id": 1}

    def test_a_call_that_is_given_up_as_its_answer_arrives_leaves_no_traceback(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        _, link = linked()
        call = Calls(link).prepare("shop", "buy", {"id": 1}, "buy")()

        def arriving(value: Any, *_: Any, **__: Any) -> Any:
            at_once(call.cancel)
            return value

        monkeypatch.setattr(guest_calls, "from_reply", arriving)
        link.pump(30)
        with contextlib.suppress(CancelledError):
            assert call.result(30) == {"id": 1}
        assert caplog.text == ""

    def test_a_result_that_can_not_be_read_ends_the_wait_for_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, link = linked()
        calls = Calls(link)

        def too_large(*_: Any, **__: Any) -> Any:
            raise MemoryError

        monkeypatch.setattr(guest_calls, "from_reply", too_large)
        call = calls.prepare("shop", "buy", {"id": 1}, "buy")()
        link.pump(30)
        with pytest.raises(MemoryError):
            call.result(0)
        mapping = mapped(calls, 3)
        for _ in range(3):
            link.pump(30)
        with pytest.raises(MemoryError):
            mapping._future.result(0)

    def test_a_call_that_two_threads_use_is_made_once(self) -> None:
        _, link = linked()
        sent: list[Future[Any]] = []
        second = threading.Event()

        def send() -> Future[Any]:
            second.wait(30)
            threading.Event().wait(0.1)
            sent.append(Future())
            return sent[-1]

        def use_second() -> Future[Any]:
            second.set()
            return call._future

        call = PendingCall(Calls(link), send, "buy")
        assert len(set(at_once(lambda: call._future, use_second))) == 1
        assert len(sent) == 1


def mapped(calls: Calls, count: int) -> PendingMap:
    sends, results = prepared("buy", range(count), lambda item: calls.prepare("shop", "buy", {"id": item}, "buy"))
    return PendingMap(calls, sends, results, concurrency=8)


def test_the_errors_of_a_map_are_known_before_the_program_goes_on() -> None:
    _, link = linked()
    calls = Calls(link)
    known: list[int] = []
    mapping = mapped(calls, 1)
    mapping._future.add_done_callback(lambda _: known.append(len(calls.maps)))
    link.pump(30)
    assert known == [1]


def test_a_call_that_another_thread_uses_at_the_end_is_not_missed() -> None:
    class Taken(dict[int, PendingCall]):
        def __len__(self) -> int:
            count = super().__len__()
            self.clear()  # as the other thread does now
            return count

    _, link = linked()
    calls = Calls(link)
    calls.unclaimed = Taken()
    calls.pending(PendingCall(calls, Future, "buy"))
    calls.settle_unclaimed()


@pytest.mark.usefixtures("hasty_threads")
def test_the_end_of_a_program_waits_for_calls_while_other_threads_make_and_use_some() -> None:
    _, link = linked()
    calls = Calls(link)
    is_over = threading.Event()
    done: Future[Any] = Future()
    done.set_result(1)

    def use() -> None:
        while not is_over.is_set():
            calls.unclaimed.pop(id(calls.pending(PendingCall(calls, done, "buy"))), None)

    def settle() -> None:
        try:
            for _ in range(20_000):
                calls.pending(PendingCall(calls, done, "buy"))
            calls.settle_unclaimed()
        finally:
            is_over.set()

    at_once(settle, use, use)


def test_bytes_that_arrive_while_the_program_prints_are_left_out_of_what_it_prints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encoded._Known, "files", {})
    monkeypatch.setattr(encoded._Known, "pattern", None)
    chance = random.Random(1)
    texts = [base64.b64encode(chance.randbytes(300)).decode() for _ in range(3)]
    arriving = texts[1:]

    def escape(text: str, escape: Callable[[str], str] = re.escape) -> str:
        if arriving:
            at_once(lambda: encoded.remember(arriving.pop(), "image/png", None))
        return escape(text)

    monkeypatch.setattr(re, "escape", escape)
    encoded.remember(texts[0], "image/png", None)
    printed = [encoded.without_bytes(" ".join(texts)) for _ in range(3)]
    assert printed[0].startswith("(300 bytes, image/png) ")
    assert printed[-1] == " ".join(["(300 bytes, image/png)"] * 3)


def test_checkpoints_of_two_threads_are_each_stored_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier_programs, "FILE", str(tmp_path / "checkpoint.json"))
    both = threading.Barrier(2)
    fsync = os.fsync

    def together(descriptor: int) -> None:
        fsync(descriptor)
        both.wait(30)

    monkeypatch.setattr(os, "fsync", together)
    _, link = linked()
    checkpoint = Checkpoint(link)
    at_once(*(lambda step=step: checkpoint.save(step, step * 1_000) for step in "ab"))
    stored = checkpoint.load()
    assert stored is not None
    assert stored["context"] == stored["step"] * 1_000
    assert [*tmp_path.iterdir()] == [tmp_path / "checkpoint.json"]


class TestEventLoops:
    def test_each_thread_has_its_own(self) -> None:
        policy = loops._Policy(Loop)
        both = threading.Barrier(2)

        def use() -> bool:
            loop = policy.new_event_loop()
            policy.set_event_loop(loop)
            both.wait(30)
            is_own = policy.get_event_loop() is loop
            loop.close()
            return is_own

        assert at_once(use, use) == [True, True]

    def test_one_that_another_thread_runs_is_not_run_twice(self) -> None:
        loop = Loop()
        running = threading.Event()
        ending = asyncio.Event()

        async def wait() -> None:
            running.set()
            await ending.wait()

        def intrude() -> None:
            running.wait(30)
            try:
                with pytest.raises(RuntimeError, match="already running"):
                    loop.run_until_complete(loop.create_future())
            finally:
                loop.call_soon_threadsafe(ending.set)

        at_once(lambda: loop.run_until_complete(wait()), intrude)
        loop.close()


async def native(code: str, tools: Tools) -> Outcome:
    hasty = "import sys\nsys.setswitchinterval(1e-6)\n"
    stubs = "".join(f'@tool("github", "{name}")\ndef {name}(**arguments): ...\n' for name in ("echo", "meet"))
    program = Program(ExecutionId("x0"), hasty + HEAD + stubs + textwrap.dedent(code), Limits())
    with anyio.fail_after(60):
        return await run_natively(program, tools)


class TestWholePrograms:
    async def test_one_ends_with_its_value_while_its_threads_print(self) -> None:
        code = """
        import threading, time
        def chatter():
            for _ in range(2_000):  # together less than a program may print
                print("x" * 1_000)
        threads = [threading.Thread(target=chatter, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.02)
        "over"
        """
        for _ in range(3):
            outcome = await native(code, Tools())
            assert outcome.value == "over", outcome.error

    async def test_a_finalizer_that_runs_in_the_thread_that_reads_answers_stops_nothing(self) -> None:
        """Its objects are in cycles, so whichever thread has Python collect them runs it."""
        code = """
        import gc, threading
        class Ticket:
            ran_in = []
            def __init__(self):
                self.own = self
            def __del__(self):
                self.ran_in.append(threading.current_thread().name)
                echo(n=0)
        file = open("/skills/left.py", "w")
        file.write("def left(): return 1")
        file.own = file
        held = [Ticket(), file]
        del file
        def collect(_):
            held.clear()
            gc.collect()
        meet.begin(n=1, company=2).add_done_callback(collect)  # not answered before the next
        meet(n=2, company=2)
        [echo(n=3), Ticket.ran_in]
        """
        tools = Tools()
        outcome = await native(code, tools)
        assert outcome.value == [{"n": 3}, ["codemode-link"]], outcome
        assert sorted(sent["n"] for _, _, sent in tools.calls) == [0, 1, 2, 3]
        assert tools.saved == {"left": "def left(): return 1"}

    async def test_every_call_of_a_forked_process_is_refused_at_once(self) -> None:
        code = """
        import os
        reading, writing = os.pipe()
        if os.fork() == 0:
            for _ in range(100):
                for function in (echo, lambda: os.listdir("/servers")):
                    try:
                        function()
                    except RuntimeError as error:
                        os.write(writing, b".")
            os._exit(0)
        os.wait()
        [len(os.read(reading, 1_000)), echo(n=1)]
        """
        assert (await native(code, Tools())).value == [200, {"n": 1}]

    async def test_processes_forked_at_the_same_time_draw_different_bytes(self) -> None:
        code = """
        import os, threading
        reading, writing = os.pipe()
        def fork():
            for _ in range(25):
                child = os.fork()
                if child == 0:
                    os.write(writing, os.urandom(8))
                    os._exit(0)
                os.waitpid(child, 0)
        threads = [threading.Thread(target=fork) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        drawn = os.read(reading, 800)
        [len(drawn), len({drawn[at:at + 8] for at in range(0, len(drawn), 8)})]
        """
        assert (await native(code, Tools())).value == [800, 100]
