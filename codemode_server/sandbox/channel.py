"""The host's end of one program: frames in, door and limits, an outcome out. Knows nothing of the sandbox's technology.

One loop reads the guest's frames. Each call runs in a task of its own, `calls_in_flight` of them at once; all
other questions are answered in the loop, so that a guest can't pile them up. Whatever ends the program first decides
its outcome: `done`, a limit, an error that the door raised to end it, a frame no honest guest sends, the guest's end.
"""

from __future__ import annotations

import secrets
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import ByteSendStream

from codemode_server.errors import CallError, CodemodeError, ExecutionError, LimitExceeded
from codemode_server.sandbox import frames
from codemode_server.sandbox.backend import Door, Ending, Limits, Outcome, Program, ProgramError, Reply
from codemode_server.sandbox.clock import ProgramClock

_MAX_MESSAGE = 20_000
_Question = frames.Load | frames.Search | frames.Show | frames.Kept
"""What is answered in the loop."""


def out_of_memory(limits: Limits) -> ProgramError:
    """Why a program ended that needed too much memory."""
    message = f"the program needed more than {limits.memory_mb} MiB of memory"
    return ProgramError("LimitExceeded", message, setting="limits.memory_mb")


def _size(size_bytes: int) -> str:
    """A limit as a reader knows it: in MiB or MB where it is a round number of these."""
    if size_bytes % 2**20 == 0:
        return f"{size_bytes >> 20} MiB"
    return f"{size_bytes / 1e6:g} MB" if size_bytes % 10**5 == 0 else f"{size_bytes:,} bytes"


class Channel:
    """One program's conversation with the host."""

    def __init__(self, reader: frames.FrameReader, stream: ByteSendStream, program: Program, door: Door) -> None:
        self._reader = reader
        self._stream = stream
        self._program = program
        self._limits: Limits = program.limits
        self._door = door
        self._run_id = secrets.token_hex(16)
        self._turns = anyio.Semaphore(program.limits.calls_in_flight, fast_acquire=True)
        self._sending = anyio.Lock(fast_acquire=True)
        self._clock = ProgramClock(program.limits.wall_seconds, program.limits.upstream_seconds, anyio.current_time)
        self._timer = anyio.CancelScope()
        self._scope: anyio.CancelScope | None = None
        self._last_id = 0
        self._calls = 0
        self._output: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._output_bytes = 0
        self._line: int | None = None
        self._ended: tuple[Ending, ProgramError | None] | None = None
        self._done: frames.Done | None = None
        self._bug: Exception | None = None
        self.is_gone = False
        """Whether the sandbox ended by itself, under the program."""
        self.is_clean = False
        """Whether the program ended by itself and nothing is left half said, so that the worker may go on."""

    async def run(self) -> Outcome:
        """Drive the program to its end."""
        async with anyio.create_task_group() as tasks:
            self._scope = tasks.cancel_scope
            with self._timer:
                self._timer.deadline = self._clock.deadline
                await self._converse(tasks)
            if self._timer.cancelled_caught and self._ended is None:
                self._out_of_time()
            self.is_clean = self._done is not None and not self._sending.locked()
            tasks.cancel_scope.cancel()
        if self._bug is not None:
            raise self._bug
        return self._outcome()

    def end(self, ending: Ending, error: ProgramError | None) -> None:
        """End the program, from outside or inside; the first reason counts."""
        if self._ended is None:
            self._ended = (ending, error)
            if self._scope is not None:
                self._scope.cancel()

    def exceed(self, message: str, setting: str) -> None:
        """End the program for a limit."""
        self.end(Ending.LIMITED, ProgramError("LimitExceeded", message, setting=setting))

    async def _converse(self, tasks: anyio.abc.TaskGroup) -> None:
        longest = frames.longest_frame(self._limits)
        try:
            await self._send(frames.run_frame(self._run_id, self._program.code, self._limits))
            self._program.begun.set()
            while self._ended is None:
                await self._take(frames.parse(await self._reader.read(longest)), tasks)
        except frames.ProtocolError as error:
            self._died(f"the sandbox broke the protocol and was ended: {error}")
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._gone()

    async def _take(self, frame: frames.GuestFrame, tasks: anyio.abc.TaskGroup) -> None:
        match frame:
            case frames.Call() | frames.Read():
                self._begin_call(frame, tasks)
            case frames.Load():
                await self._answer(frame, self._door.load(frame.module))
            case frames.Search():
                found = self._door.search(frame.query, frame.detail_level, frame.server, frame.limit, frame.effect)
                await self._answer(frame, found)
            case frames.Show():
                await self._answer(frame, self._door.show(frame.data, frame.mime_type, frame.name))
            case frames.Kept():
                await self._answer(frame, self._door.kept(frame.name))
            case frames.Output():
                self._take_output(frame)
            case frames.Line():
                self._line = frame.line
            case frames.Exceeded():
                self._exceed_size(frame.setting)
            case frames.Done():
                self._take_done(frame)

    def _check_id(self, request_id: int) -> None:
        if request_id <= self._last_id:
            raise frames.ProtocolError(f"request id {request_id} after {self._last_id}")
        self._last_id = request_id

    def _begin_call(self, call: frames.Call | frames.Read, tasks: anyio.abc.TaskGroup) -> None:
        self._check_id(call.id)
        self._calls += 1
        if self._calls > self._limits.calls:
            most = self._limits.calls
            self.exceed(f"the program made more than {most:,} calls", "limits.calls")
            return
        if call.size > self._limits.call_bytes:
            self._exceed_size("limits.call_bytes")
            return
        self._clock.call_started()
        self._timer.deadline = self._clock.deadline
        tasks.start_soon(self._call, call)

    async def _call(self, call: frames.Call | frames.Read) -> None:
        try:
            try:
                async with self._turns:
                    reply = await self._ask_door(call)
                answer = self._reply(call, reply.value, reply.encoding)
            except CallError as error:
                answer = frames.refusal_frame(call.id, error.code, str(error)[:_MAX_MESSAGE])
            finally:
                self._clock.call_ended()
                self._timer.deadline = self._clock.deadline
            await self._send(answer)
        except ExecutionError as error:
            self._ended_by_door(error)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # it has ended, and how is told by what it said last, which may not be read yet
        except Exception as error:  # noqa: BLE001 - not the program's doing: raised again where `run` was called
            self._bug = self._bug or error
            self.end(Ending.DIED, None)

    async def _ask_door(self, call: frames.Call | frames.Read) -> Reply:
        if isinstance(call, frames.Read):
            return await self._door.read(call.server, call.uri)
        return await self._door.call(call.server, call.tool, call.arguments, raw=call.is_raw)

    def _reply(self, call: frames.Call | frames.Read, value: Any, encoding: str) -> bytes:
        most = self._limits.call_bytes
        answer = frames.reply_frame(call.id, frames.to_json(value), encoding)
        if len(answer) <= most:
            return answer
        message = (
            f"the result of {call.title} is larger than {_size(most)}; ask for less of it "
            "(the user can raise limits.call_bytes)"
        )
        return frames.refusal_frame(call.id, "result_too_large", message)

    async def _answer(self, request: _Question, answer: Coroutine[Any, Any, Any]) -> None:
        try:
            self._check_id(request.id)
        except frames.ProtocolError:
            answer.close()
            raise
        try:
            found = await answer
            reply = found if isinstance(found, Reply) else Reply(found)
            data = frames.reply_frame(request.id, frames.to_json(reply.value), reply.encoding)
            if isinstance(request, frames.Kept) and len(data) > self._limits.call_bytes:
                most = _size(self._limits.call_bytes)
                message = f"it is larger than {most} (the user can raise limits.call_bytes)"
                data = frames.refusal_frame(request.id, "result_too_large", message)
        except ExecutionError as error:
            self._ended_by_door(error)
            return
        except CodemodeError as error:
            data = frames.refusal_frame(request.id, error.code, str(error)[:_MAX_MESSAGE])
        await self._send(data)
        # None of the above has to wait, so a guest that asks without end would have the event loop for itself.
        await anyio.lowlevel.checkpoint()

    def _take_output(self, output: frames.Output) -> None:
        most, size = self._limits.output_bytes, len(output.text.encode())
        if self._output_bytes + size <= most:
            self._output[output.stream].append(output.text)
            self._output_bytes += size
            return
        room = output.text.encode()[: most - self._output_bytes].decode("utf-8", "ignore")
        self._output[output.stream].append(room)
        self._output_bytes = most
        self.exceed(f"the program printed more than {_size(most)}", "limits.output_bytes")

    def _take_done(self, done: frames.Done) -> None:
        if not secrets.compare_digest(done.id.encode(), self._run_id.encode()):
            raise frames.ProtocolError("'done' with an id that is not the program's")
        if done.size > self._limits.value_bytes and len(frames.to_json(done.value).encode()) > self._limits.value_bytes:
            self._exceed_size("limits.value_bytes")
            return
        if done.error is not None and done.error.type == "MemoryError":
            error = out_of_memory(self._limits)
            self.end(Ending.LIMITED, replace(error, traceback=done.error.traceback, line=done.error.line))
            return
        self._done = done
        self._ended = (Ending.RETURNED if done.error is None else Ending.RAISED, done.error)

    async def _send(self, data: bytes) -> None:
        async with self._sending:
            await self._stream.send(data)

    def _gone(self) -> None:
        self.is_gone = self._ended is None
        self._died("the sandbox ended under the program")

    def _died(self, message: str) -> None:
        self.end(Ending.DIED, ProgramError("SandboxFailed", message))

    def _ended_by_door(self, error: ExecutionError) -> None:
        if isinstance(error, LimitExceeded):
            self.exceed(str(error), error.setting)
        else:
            self._died(str(error))

    def _exceed_size(self, setting: str) -> None:
        if setting == "limits.value_bytes":
            self.exceed(f"the value is larger than {_size(self._limits.value_bytes)} and was not kept", setting)
        else:
            self.exceed(f"a call's arguments are larger than {_size(self._limits.call_bytes)}", setting)

    def _out_of_time(self) -> None:
        setting, limits = self._clock.spent_setting, self._limits
        if setting == "limits.upstream_seconds":
            self.exceed(f"the program waited for its calls longer than {limits.upstream_seconds:g} s", setting)
        elif limits.wall_seconds_from_argument:
            self.exceed(f"stopped after {limits.wall_seconds:g} s (timeout={limits.wall_seconds:g})", "timeout")
        else:
            self.exceed(f"the program ran longer than {limits.wall_seconds:g} s", setting)

    def _outcome(self) -> Outcome:
        ending, error = self._ended or (Ending.DIED, ProgramError("SandboxFailed", "the sandbox gave no outcome"))
        if error is not None and error.setting is not None and error.line is None:
            error = replace(error, line=self._line)
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
