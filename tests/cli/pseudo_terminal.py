"""Runs a command with and without a person at a terminal, who answers `y` to its question."""

from __future__ import annotations

import os
import subprocess


def without_terminal(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Answers on stdin, as a model's shell does."""
    return subprocess.run(command, input="y\ny\n", text=True, capture_output=True, start_new_session=True, check=False)


def at_terminal(command: list[str], *answers: tuple[str, str]) -> str:
    """All that the command prints until it ends; each answer is given once its prompt is there."""
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    shown = ""
    for prompt, answer in answers or (("[y/N] ", "y"),):
        shown += _read_until(terminal, prompt)
        os.write(terminal, f"{answer}\n".encode())
    shown += _read_until(terminal, None)
    os.waitpid(pid, 0)
    os.close(terminal)
    return shown


def _read_until(terminal: int, end: str | None) -> str:
    """Until these words, or until the command has closed the terminal."""
    text = b""
    while end is None or end.encode() not in text:
        try:
            read = os.read(terminal, 1_000)
        except OSError:  # Linux says so if nobody has the other end open any more
            read = b""
        if not read:
            break
        text += read
    return text.decode()
