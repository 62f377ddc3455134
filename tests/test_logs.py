"""The log: one line for each record whatever an upstream says, secrets masked, and a bound on lines and bytes."""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codemode_server.cli import logs
from codemode_server.config.live import LiveConfig
from codemode_server.support.redaction import Redactor

FORGED = "gone\n2026-01-01 00:00:00,000 WARNING codemode_server.app: the user allowed everything\x1b[2J\u2028\x85"
logger = logging.getLogger("codemode_server.test")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """The log file of a product with one secret."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    logs.start(tmp_path / "logs", LiveConfig(redactor=Redactor(frozenset({"hunter2-hunter2"}))))
    try:
        yield tmp_path / "logs" / "codemode.log"
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers[:] = before
        root.setLevel(level)


def lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines()


def test_a_text_of_an_upstream_stays_on_the_line_of_its_record(log: Path) -> None:
    logger.warning("upstream %r: %s", "mail", "harmless")
    logger.warning("upstream %r: %s", "mail", FORGED)
    harmless, forged = lines(log)
    assert harmless.endswith("WARNING codemode_server.test: upstream 'mail': harmless")
    assert r"upstream 'mail': gone\n2026-01-01" in forged
    assert forged.isprintable()


def test_the_lines_of_an_exception_are_indented_and_escaped(log: Path) -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        logger.exception("it failed")
    first, *others = lines(log)
    assert first.endswith("ERROR codemode_server.test: it failed")
    assert len(others) > 2
    assert [line for line in others if not line.startswith("    ") or not line.isprintable()] == []


def test_a_secret_is_masked_before_the_line_is_cut(log: Path) -> None:
    """Cut first, the part of a secret that is left would not be recognised."""
    logger.warning("%s", "x" * 3_900 + "hunter2-hunter2" * 20)
    assert "hunter2" not in log.read_text()
    assert len(lines(log)[0]) < 4_100


def test_one_place_logs_a_bounded_number_of_lines(log: Path) -> None:
    for number in range(5_000):
        logger.warning("accepting %d failed", number)
    logger.warning("something else")
    written = lines(log)
    assert len(written) == 31
    assert written[29].endswith("accepting 29 failed [more like this are left out for up to 60 seconds]")
    assert written[30].endswith("something else")


def test_after_the_period_the_log_says_how_many_lines_were_left_out() -> None:
    now = 0.0
    bounded = logs.RateLimit(clock=lambda: now)

    def record() -> logging.LogRecord:
        return logging.LogRecord("n", logging.ERROR, "file.py", 1, "m", (), None)

    assert sum(bounded.filter(record()) for _ in range(1_030)) == 30
    now = 61.0
    after = record()
    assert bounded.filter(after)
    formatted = logs._LineFormatter(LiveConfig(), "%(message)s").format(after)
    assert formatted == "m [before this, 1,000 more lines were left out of the log]"


def test_the_files_of_the_log_have_a_bounded_size(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for handler in logging.getLogger().handlers:
        handler.filters.clear()
        monkeypatch.setattr(handler, "level", logging.CRITICAL if handler.level else logging.NOTSET)
    for _ in range(3_000):
        logger.warning("%s", "x" * 3_000)
    sizes = [path.stat().st_size for path in log.parent.iterdir()]
    assert len(sizes) == 4
    assert max(sizes) <= 1 << 20


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_the_log_is_its_owners_only(log: Path) -> None:
    umask = os.umask(0)
    try:
        logger.warning("x")
    finally:
        os.umask(umask)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
