"""A fake model on loopback, for tests and dry runs: it says what the reference solutions say, in both wire formats.

It knows nothing but the conversation: the first message of the user names the task, the tools name the arm, and the
number of its own replies so far names the step. Its usage counts tokens of o200k; what a real endpoint would read from
its cache is the conversation up to the last reply.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from benchmarks.tasks.sessions import request_of
from benchmarks.trial.task import Solution, Task
from tests.answering import Asked, answering
from tests.vocabulary import tokens_of as tokens

ARMS = ("direct", "deferred", "codemode-server", "codemode-server, tools beside")
"""Those that it knows the language of."""
MODEL = "scripted (no model: the reference solutions)"
Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Scripted:
    tasks: Sequence[Task]
    fault: Callable[[Asked], Answer | None] = lambda _: None
    """Asked before each answer; what it gives is answered instead."""

    def serve(self) -> AbstractContextManager[str]:
        """Its address, without a path, until the block is left."""
        return answering(self._answer)

    def _answer(self, asked: Asked) -> Answer:
        fault = self.fault(asked)
        if fault is not None:
            return fault
        body = json.loads(asked.body)
        is_openai = asked.path.endswith("/chat/completions")
        names = [it["function"]["name"] if is_openai else it["name"] for it in body.get("tools", [])]
        said = [it for it in body["messages"] if it["role"] != "system"]
        step = next_step(self.tasks, names, said)
        before = 1 + max((number for number, it in enumerate(said) if it["role"] == "assistant"), default=-1)
        head = json.dumps([body.get("tools"), body.get("system"), said[:before]]) if before else ""
        text = json.dumps([body.get("tools"), body.get("system"), said])
        read = tokens(head)
        count = (max(0, tokens(text) - read), read, tokens(json.dumps(step)))
        answer = (_openai if is_openai else _anthropic)(step, f"call_{len(said)}", *count)
        return 200, {"content-type": "application/json"}, json.dumps(answer).encode()


Step = str | list[tuple[str, dict[str, Any]]]
"""An answer, or calls of tools."""


def next_step(tasks: Sequence[Task], tools: Sequence[str], said: Sequence[dict[str, Any]]) -> Step:
    """What comes next in a conversation without its system prompt, with these tools."""
    if not tools:  # the first request of a trial
        return "Ready."
    task = next(task for task in tasks if task.messages[0] == _text(said[0]))
    is_code = "execute_code" in tools
    steps = [step for solution in task.solution for step in steps_of(solution, is_code=is_code)]
    if "tool_search" in tools:
        names = dict.fromkeys(tool for step in steps if not isinstance(step, str) for tool, _ in step)
        steps.insert(0, [("tool_search", {"query": f"select:{','.join(names)}"})])
    step = steps[sum(it["role"] == "assistant" for it in said)]
    return step or _text(said[-1])


def steps_of(solution: Solution, *, is_code: bool) -> list[Step]:
    turns: list[Step]
    answer = solution.answer
    if is_code:
        turns = [[("execute_code", {"code": program})] for program in solution.programs]
        answer = answer if solution.program_answer is None else solution.program_answer
    else:
        turns = [[(it.name, it.arguments) for it in map(request_of, turn)] for turn in solution.calls]
    return [*turns, answer]


def _text(message: dict[str, Any]) -> str:
    """Text of a message with results or from the user, in either format."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(it.get("text") or it.get("content") or "" for it in content)


def _openai(step: Step, name: str, uncached: int, read: int, output: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": step if isinstance(step, str) else None}
    if not isinstance(step, str):
        message["tool_calls"] = [
            {
                "id": f"{name}_{number}",
                "type": "function",
                "function": {"name": tool, "arguments": json.dumps(arguments)},
            }
            for number, (tool, arguments) in enumerate(step)
        ]
    usage = {
        "prompt_tokens": uncached + read,
        "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": read},
    }
    return {"choices": [{"index": 0, "message": message}], "usage": usage}


def _anthropic(step: Step, name: str, uncached: int, read: int, output: int) -> dict[str, Any]:
    content: list[dict[str, Any]]
    if isinstance(step, str):
        content = [{"type": "text", "text": step}]
    else:
        content = [
            {"type": "tool_use", "id": f"{name}_{number}", "name": tool, "input": arguments}
            for number, (tool, arguments) in enumerate(step)
        ]
    usage = {
        "input_tokens": 0,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": uncached,
        "output_tokens": output,
    }
    return {"role": "assistant", "content": content, "usage": usage}
