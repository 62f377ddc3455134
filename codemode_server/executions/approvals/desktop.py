"""Notifies the person on the desktop that a call waits, with what the system has for that.

A notification has no button. It has the names of the server and the tool, each as one word of letters and digits, since
what shows it may take other signs for markup, and the person a name that an upstream chose for a sentence of ours or an
address. Locked screens show it to everybody, so it has no arguments of the call. The names are never part of a script
or a shell's line: they are arguments, or variables of the environment.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread

from codemode_server.config.live import LiveConfig
from codemode_server.domain.approvals import Approval, ApprovalAnswer, Question
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.processes.child_process import run
from codemode_server.text import clean_line

logger = logging.getLogger(__name__)

GRACE_SECONDS = 10.0
"""A question that is answered within this time has somebody who looks at it."""
_PAUSE_SECONDS = 10.0
"""Questions that come sooner after a notification get none of their own."""
_RUN_SECONDS = 10.0
_TITLE = "codemode-server"
_MAX_NAME_CHARACTERS = 60
_SIGNS = frozenset("_-")
_VARIABLES = (
    *("PATH", "HOME", "LANG", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR"),
    *("DBUS_SESSION_BUS_ADDRESS", "SystemRoot", "USERPROFILE", "LOCALAPPDATA", "APPDATA", "TEMP"),
)
"""All that the notifier gets of the environment, which may hold secrets."""
_APPLE_SCRIPT = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)
_TEXT, _HEADING = "CODEMODE_TEXT", "CODEMODE_HEADING"
_POWERSHELL = f"""
$ErrorActionPreference = 'Stop'
[void][Windows.UI.Notifications.ToastNotificationManager, Windows.UI.Notifications, ContentType = WindowsRuntime]
$kind = [Windows.UI.Notifications.ToastTemplateType]::ToastText02
$toast = [Windows.UI.Notifications.ToastNotificationManager]::GetTemplateContent($kind)
$lines = $toast.GetElementsByTagName('text')
[void]$lines.Item(0).AppendChild($toast.CreateTextNode($env:{_HEADING}))
[void]$lines.Item(1).AppendChild($toast.CreateTextNode($env:{_TEXT}))
$app = '{{1AC14E77-02E7-4E5D-B744-2EB1AE5198B7}}\\WindowsPowerShell\\v1.0\\powershell.exe'
$shown = [Windows.UI.Notifications.ToastNotification]::new($toast)
[Windows.UI.Notifications.ToastNotificationManager]::CreateToastNotifier($app).Show($shown)
"""


@dataclass(frozen=True, slots=True)
class Notifier:
    """The program that shows notifications here."""

    command: tuple[str, ...]
    is_windows: bool = False

    def command_for(self, title: str, text: str) -> tuple[Sequence[str], Mapping[str, str]]:
        """The command line that shows this, and what it gets beside the environment."""
        if self.is_windows:
            return self.command, {_HEADING: title, _TEXT: text}
        return (*self.command, title, text), {}


@dataclass(frozen=True, slots=True)
class NoNotifier:
    """Why nothing can be shown here, and what to do about it."""

    reason: str
    remedy: str


def find_notifier(
    platform: str = sys.platform,
    environ: Mapping[str, str] = os.environ,
    exists: Callable[[str], bool] = os.path.exists,
) -> Notifier | NoNotifier:
    """Finds the program that shows notifications on this system. Blocks briefly."""
    if platform == "darwin":
        program = "/usr/bin/osascript"
        script = (part for line in _APPLE_SCRIPT for part in ("-e", line))
        return Notifier((program, *script, "--")) if exists(program) else _part_of_system(program, "macOS")
    if platform == "win32":
        program = f"{environ.get('SystemRoot', 'C:/Windows')}/System32/WindowsPowerShell/v1.0/powershell.exe"
        command = program, "-NoProfile", "-NonInteractive", "-Command", _POWERSHELL
        return Notifier(command, is_windows=True) if exists(program) else _part_of_system(program, "Windows")
    found = shutil.which("notify-send", path=environ.get("PATH"))
    if found is None or not Path(found).is_absolute():
        remedy = "install notify-send (Debian, Ubuntu: libnotify-bin; Fedora, Arch: libnotify)"
        return NoNotifier("notify-send is not installed", remedy)
    if not any(environ.get(name) for name in ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")):
        return NoNotifier("there is no desktop session (no DBUS_SESSION_BUS_ADDRESS)", "start the host from a desktop")
    return Notifier((found, f"--app-name={_TITLE}", "--"))


def _part_of_system(program: str, system: str) -> NoNotifier:
    return NoNotifier(f"there is no {program}", f"it is a part of {system}; restore it")


def notification(question: Question, mask: Callable[[str], str] = str) -> str:
    """Text of the notification for a question."""
    server, tool = _plain(mask(question.server)), _plain(mask(question.tool))
    return f"{server}: {tool} waits for your approval"


def _plain(name: str) -> str:
    """The name with every sign replaced that could be markup, or a part of a script, a sentence or an address."""
    return "".join(it if it.isalnum() or it in _SIGNS else "_" for it in name[:_MAX_NAME_CHARACTERS])


@dataclass(slots=True)
class DesktopChannel:
    """Implements `ApprovalChannel`; never answers."""

    config: LiveConfig
    find: Callable[[], Notifier | NoNotifier] = find_notifier
    grace_seconds: float = field(default_factory=lambda: GRACE_SECONDS)
    _shown_at: float | None = None
    _problems: set[str] = field(default_factory=set)
    """Those that were logged."""

    async def ask(self, calls: ExecutionCalls, approval: Approval) -> ApprovalAnswer | None:
        if not calls.context.is_local:
            return None  # the desktop is somebody else's
        await anyio.sleep(self.grace_seconds)
        if self.config.settings.approvals.notify != "desktop":
            return None
        if self._shown_at is None or time.monotonic() - self._shown_at >= _PAUSE_SECONDS:
            self._shown_at = time.monotonic()
            await self._show(notification(approval.question, self.config.redactor.text))
        return None

    async def _show(self, text: str) -> None:
        found = await anyio.to_thread.run_sync(self.find)
        if isinstance(found, NoNotifier):
            self._log_once(f"{found.reason}; {found.remedy}")
            return
        command, more = found.command_for(_TITLE, text)
        environment = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        try:
            done = await run(command, env={**environment, **more}, seconds=_RUN_SECONDS)
        except OSError as error:
            self._log_once(f"{command[0]} can't be started: {error.strerror or error}")
        except TimeoutError:
            self._log_once(f"{command[0]} did not end within {_RUN_SECONDS:.0f} s")
        else:
            if done.code:
                self._log_once(f"{command[0]} failed with {done.code}: {clean_line(done.stderr, 200)}")

    def _log_once(self, problem: str) -> None:
        if problem not in self._problems:
            self._problems.add(problem)
            logger.warning("no desktop notification (approvals.notify): %s", problem)
