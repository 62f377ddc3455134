"""The host's end of one program: frames in, limits, an outcome out. Independent of the backend.

One task reads the guest's frames. Each call runs in a task of its own, `calls_in_flight` of them at once, and so does
one other request; the loop reads no further while there are more of them, until one is answered and its answer sent
(`frames` says what an honest guest keeps to). Whatever ends the program first decides its outcome: `done`, a limit, an
error that the `HostApi` raised to end it, a frame no honest guest sends, the guest's end.

Large frames are parsed and written in a thread, one at a time.
"""

from __future__ import annotations

import math
from dataclasses import replace

import anyio
from anyio.abc import ByteSendStream, TaskGroup

from codemode_server.domain.errors import (
    CallError,
    CodemodeError,
    ExecutionError,
    LimitExceeded,
    ResultTooLarge,
)
from codemode_server.processes.stream_readers import FrameReader, FramingError
from codemode_server.sandbox import contract, frames
from codemode_server.sandbox.clock import ProgramClock
from codemode_server.sandbox.contract import Ending, HostApi, Limits, Outcome, Program, ProgramError, Reply
from codemode_server.sandbox.quota import Quota
from codemode_server.support.json_values import MAX_VALUES, size_as_json
from codemode_server.support.off_loop import LARGE_BYTES, Pace, is_large, read_large, run_large, run_sized

_BEGIN_SECONDS = 60.0
"""How long a started sandbox may take until it has the program."""
_LINE_SECONDS = 0.1
"""How long the frame of the line that a call is in may take to come after that."""
_MAX_MESSAGE = 20_000
_PIECE = 256 * 2**10
"""Bytes that are given to the stream at once."""
_ROOM_BYTES = 16 * 2**20
"""Memory that the arguments of one program's calls may take together, where `call_bytes` is less."""
_MAX_UNREAD_RESULTS = 4
"""Results of `call_bytes` that may wait for the program to read them; if they are smaller, as many as are that large
together, or 16 MiB."""


def _size(size_bytes: int) -> str:
    """A limit as a reader knows it: in MiB or MB where it is a round number of these."""
    if size_bytes % 2**20 == 0:
        return f"{size_bytes >> 20} MiB"
    return f"{size_bytes / 1e6:g} MB" if size_bytes % 10**5 == 0 else f"{size_bytes:,} bytes"


class _ArgumentRoom:
    """The memory that the arguments of the calls being made may take together. One call always has room."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._taken: dict[int, int] = {}
        self._less = anyio.Event()

    async def wait(self, size: int) -> None:
        while self._taken and sum(self._taken.values()) + size > self._max_bytes:
            await self._less.wait()

    async def take(self, call_id: int, size: int) -> None:
        await self.wait(size)
        self._taken[call_id] = size

    def give_back(self, call_id: int) -> None:
        del self._taken[call_id]
        self._less.set()
        self._less = anyio.Event()


class NotBegun(Exception):
    """Raised when the sandbox ended before it had the program, of which nothing has run."""


class Channel:
    def __init__(
        self, reader: FrameReader, stream: ByteSendStream, program: Program, host_api: HostApi, signal: bytes = b""
    ) -> None:
        """`signal` is sent before the program, and answered by an empty frame once the sandbox has the program."""
        self._reader = reader
        self._stream = stream
        self._program = program
        self._limits: Limits = program.limits
        self._host_api = host_api
        self._signal = signal
        self._slots = anyio.Semaphore(program.limits.calls_in_flight, fast_acquire=True)
        self._asking = anyio.Semaphore(1, fast_acquire=True)
        self._room = _ArgumentRoom(max(program.limits.call_bytes, _ROOM_BYTES))
        self._last_answer = anyio.Event()
        """Set when the answer that came last has been sent, or will never be; those before it were."""
        self._last_answer.set()
        self._is_sending = False
        self._unread_bytes = 0
        """Size of the answers that the program has not read yet."""
        self._clock = ProgramClock(math.inf, math.inf, anyio.current_time)
        self._timer = anyio.move_on_after(_BEGIN_SECONDS)
        self._tasks: TaskGroup | None = None
        self._has_begun = False
        self._last_id = 0
        self._calls = 0
        self._output: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._output_bytes = 0
        self.line: int | None = None
        """The last new line that the program reached."""
        self._ended: tuple[Ending, ProgramError | None] | None = None
        self._done: frames.Done | None = None
        self._bug: Exception | None = None
        self.is_gone = False
        """True if the sandbox ended by itself while the program ran."""
        self.is_clean = False
        """True if the program ended by itself with nothing sent in part, so that the worker can be reused."""

    async def run(self, quota: Quota | None = None, holder: int | None = None) -> Outcome:
        """Run the program within its quota; `holder` is as in `Quota.watch`. Raises `NotBegun`."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._converse, tasks, quota, holder)
        self.is_clean = self._done is not None and not self._is_sending  # now, as no task goes on sending
        if self._bug is not None:
            raise self._bug
        ending, error = self._ended or (Ending.DIED, ProgramError("SandboxFailed", "the sandbox gave no outcome"))
        if ending is Ending.DIED and not self._has_begun:
            raise NotBegun
        return self._outcome(ending, error)

    def _host_wait_changed(self) -> None:
        self._clock.set_waiting(self._program.host_wait.calls)
        self._timer.deadline = self._clock.deadline

    def end(self, ending: Ending, error: ProgramError | None) -> None:
        """End the program, from outside or inside; the first reason counts."""
        if self._ended is None:
            self._ended = (ending, error)
            if self._tasks is not None:
                self._tasks.cancel_scope.cancel()

    def exceed(self, message: str, setting: str | None, line: int | None = None, hint: str = "") -> None:
        self.end(Ending.LIMITED, ProgramError("LimitExceeded", message, line=line, setting=setting, hint=hint))

    async def _converse(self, tasks: TaskGroup, quota: Quota | None, holder: int | None) -> None:
        watch = quota.watch(tasks, self, holder) if quota is not None else None
        with self._timer:
            try:
                await self._send(self._signal + self._first_frame(), self._last_answer)
                if not self._signal:
                    self._begin()
                await self._read_frames(tasks)
            except FramingError as error:
                self._died(f"the sandbox broke the protocol and was ended: {error}")
            except frames.TooManyValues:
                message = f"a call's arguments, or the program's value, hold more than {MAX_VALUES:,} values"
                hint = (
                    "send fewer in each call; return a summary, and write the rest to a file in /workspace; no setting "
                    "raises this limit"
                )
                self.exceed(message, None, hint=hint)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self.is_gone = self._ended is None
                self._died("the sandbox ended under the program")
            finally:
                if watch is not None:
                    watch.cancel()
        if self._timer.cancelled_caught and self._has_begun and self._ended is None:
            self._out_of_time()
        tasks.cancel_scope.cancel()

    def _first_frame(self) -> bytes:
        return frames.run_frame(self._program)

    def _begin(self) -> None:
        limits = self._limits
        self._clock = ProgramClock(limits.wall_seconds, limits.upstream_seconds, anyio.current_time)
        self._program.host_wait.on_change = self._host_wait_changed
        self._timer.deadline = self._clock.deadline
        self._has_begun = True
        self._program.begun.set()

    async def _read_frames(self, tasks: TaskGroup) -> None:
        longest, pace = frames.longest_frame(self._limits), Pace()
        while self._ended is None:
            if (frame := self._reader.take(longest if self._has_begun else 0)) is None:
                await self._reader.more()
                pace.begin()
                continue
            if not self._has_begun:
                self._begin()
                continue
            if len(frame) > LARGE_BYTES:
                await self._room.wait(len(frame))
                parsed = await read_large(frames.parse, frame)
            else:
                parsed = frames.parse(frame)
            frame = b""  # neither need be held while the next one comes
            await self._take(parsed, tasks)
            del parsed
            # Frames that are here already are read without waiting, so a guest could keep the event loop to itself.
            await pace.rest()

    async def _take(self, frame: frames.GuestFrame, tasks: anyio.abc.TaskGroup) -> None:
        match frame:
            case frames.Call() | frames.Read():
                await self._begin_call(frame, tasks)
            case frames.Request():
                self._check_id(frame.id)
                await self._asking.acquire()
                tasks.start_soon(self._answer, frame, self._asking)
            case frames.Output():
                self._take_output(frame)
            case frames.Line():
                self.line = frame.line
            case frames.Exceeded():
                self._exceed_limit(frame.setting, frame.line, frame.value or "")
            case frames.Done():
                await self._take_done(frame)

    def _check_id(self, request_id: int) -> None:
        if request_id <= self._last_id:
            raise frames.ProtocolError(f"request id {request_id} after {self._last_id}")
        self._last_id = request_id

    async def _begin_call(self, call: frames.HostCall, tasks: anyio.abc.TaskGroup) -> None:
        self._check_id(call.id)
        self._calls += 1
        if self._calls > self._limits.calls:
            if self._calls == self._limits.calls + 1:
                tasks.start_soon(self._end_after_calls)
            return
        if call.size > self._limits.call_bytes:
            self._exceed_limit("limits.call_bytes")
            return
        await self._slots.acquire()
        await self._room.take(call.id, call.memory)
        self._clock.call_started()
        self._timer.deadline = self._clock.deadline
        tasks.start_soon(self._answer, call, self._slots)

    async def _end_after_calls(self) -> None:
        for _ in range(self._limits.calls_in_flight):
            await self._slots.acquire()
        await anyio.sleep(_LINE_SECONDS)
        self._exceed_limit("limits.calls")

    async def _answer(self, request: frames.Request, slots: anyio.Semaphore) -> None:
        """Ask the host and send its answer. Answers are sent in the order in which they came, although a large one
        takes longer to encode than a small one that came after it."""
        is_call = isinstance(request, frames.HostCall)
        reply: Reply | CodemodeError
        try:
            try:
                reply = await request.ask(self._host_api)
            except CodemodeError as error:
                if isinstance(error, ExecutionError) or (is_call and not isinstance(error, CallError)):
                    raise
                reply = error
            finally:
                if is_call:
                    self._room.give_back(request.id)
                    self._clock.call_ended()
                    self._timer.deadline = self._clock.deadline
            before, self._last_answer = self._last_answer, (sent := anyio.Event())
            request_id, title = request.id, request.title
            del request  # its arguments need not wait with the answer
            try:
                if isinstance(reply, Reply) and is_large(reply.value):
                    answer = await run_large(self._encoded, request_id, title, reply)
                else:
                    answer = self._encoded(request_id, title, reply)
                del reply  # nor its value with the frame
                await self._send(answer, before)
            finally:
                sent.set()
        except LimitExceeded as error:
            self.exceed(str(error), error.setting)
        except ExecutionError as error:
            self._died(str(error))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the guest has ended; its last frames, which may not be read yet, say how
        except Exception as error:  # noqa: BLE001 - not the program's doing: raised again where `run` was called
            self._bug = self._bug or error
            self.end(Ending.DIED, None)
        finally:
            slots.release()

    def _encoded(self, request_id: int, title: str, reply: Reply | CodemodeError) -> bytes:
        """The frame of an answer; the result of a call, which has a title, is an error if it is larger than a call may
        be, or too much with the results that wait to be read."""
        if not isinstance(reply, Reply):
            return frames.refusal_frame(request_id, reply.code, str(reply)[:_MAX_MESSAGE])
        try:
            answer = frames.reply_frame(request_id, reply.value, reply.encoding)
        except RecursionError:
            what = f"the result of {title}" if title else "the answer"
            return frames.refusal_frame(
                request_id, ResultTooLarge.code, f"{what} is nested too deep; ask for a part of it"
            )
        if not title:
            return answer
        message = f"the result of {title} is "
        if len(answer) > self._limits.call_bytes:
            message += f"larger than {_size(self._limits.call_bytes)}; ask for less of it"
            message += " (the user can raise limits.call_bytes)"
        elif self._unread_bytes + len(answer) > max(_MAX_UNREAD_RESULTS * self._limits.call_bytes, _ROOM_BYTES):
            message += f"dropped, as {self._unread_bytes:,} bytes of results wait to be read; await fewer calls at once"
        else:
            return answer
        return frames.refusal_frame(request_id, ResultTooLarge.code, message)

    def _take_output(self, output: frames.Output) -> None:
        most = self._limits.max_output_bytes
        left = most - self._output_bytes
        data = output.text[: left + 1].encode()
        if len(data) <= left:
            self._output[output.stream].append(output.text)
            self._output_bytes += len(data)
            return
        self._output[output.stream].append(data[:left].decode("utf-8", "ignore"))
        self._output_bytes = most
        self.exceed(f"the program printed more than {_size(most)}", "limits.output_bytes")

    async def _take_done(self, done: frames.Done) -> None:
        most = self._limits.max_value_bytes
        if done.size > most and await run_sized(done.size > LARGE_BYTES, size_as_json, done.value) > most:
            self._exceed_limit("limits.value_bytes")
            return
        if self._calls > self._limits.calls:
            self._exceed_limit("limits.calls")
            return
        if done.error is not None and done.error.type == "MemoryError":
            error = contract.out_of_memory(self._limits)
            self.end(Ending.LIMITED, replace(error, traceback=done.error.traceback, line=done.error.line))
            return
        self._done = done
        if done.error is None:
            self._ended = (Ending.RETURNED, None)
        else:
            self._ended = (Ending.RAISED, ProgramError(**done.error.model_dump()))

    async def _send(self, frame: bytes, before: anyio.Event) -> None:
        self._unread_bytes += len(frame)
        await before.wait()
        self._is_sending = True
        for start in range(0, len(frame), _PIECE):  # the stream copies what the guest does not read yet
            await self._stream.send(frame[start : start + _PIECE])
        self._is_sending = False
        self._unread_bytes -= len(frame)

    def _died(self, message: str) -> None:
        self.end(Ending.DIED, ProgramError("SandboxFailed", message))

    def _exceed_limit(self, setting: str, line: int | None = None, value: str = "") -> None:
        match setting:
            case "limits.value_bytes":
                lost = f" and was not stored{': it is ' + value if value else ''}"
                message = f"the value is larger than {_size(self._limits.max_value_bytes)}{lost}"
            case "limits.calls":
                message = f"the program may make at most {self._limits.calls:,} calls, and asked for another"
            case _:
                message = f"a call's arguments are larger than {_size(self._limits.call_bytes)}"
        self.exceed(message, setting, line)

    def _out_of_time(self) -> None:
        setting, limits = self._clock.spent_setting, self._limits
        waited = self._clock.upstream_s
        beside = f", not counting {waited:.0f} s of waiting for its calls" if waited >= 1 else ""
        if setting == "limits.upstream_seconds":
            self.exceed(f"the program waited for its calls longer than {limits.upstream_seconds:g} s", setting)
        elif limits.wall_seconds_from_argument:
            self.exceed(f"stopped after {limits.wall_seconds:g} s (timeout={limits.wall_seconds:g}){beside}", "timeout")
        else:
            self.exceed(f"the program ran longer than {limits.wall_seconds:g} s{beside}", setting)

    def _outcome(self, ending: Ending, error: ProgramError | None) -> Outcome:
        if error is not None and error.setting is not None and error.line is None:
            error = replace(error, line=self.line)
        done = self._done
        return Outcome(
            ending=ending,
            value=done.value if done and ending is Ending.RETURNED else None,
            value_form=done.value_form if done and ending is Ending.RETURNED else "none",
            hint=done.hint if done else "",
            error=error,
            stdout="".join(self._output["stdout"]),
            stderr="".join(self._output["stderr"]),
            program_ms=self._clock.program_s * 1000,
            upstream_ms=self._clock.upstream_s * 1000,
        )
