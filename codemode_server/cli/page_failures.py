"""What the pages show of an error in a task that they have begun; such an error must not end them."""

from __future__ import annotations

import logging

from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.input_requests import InputRefused
from codemode_server.redaction import Redactor

logger = logging.getLogger(__name__)

MAX_TEXT_CHARACTERS = 1_000


def failure_text(error: Exception, task: str, redactor: Redactor) -> str:
    """The message of an error that is meant for the person, without secrets; of others only their kind.

    `task` is for the log, such as `the check of the servers`.
    """
    while isinstance(error, ExceptionGroup):  # a product wraps what ends it
        error = error.exceptions[0]
    if isinstance(error, CodemodeError | InputRefused):
        return redactor.line(str(error), MAX_TEXT_CHARACTERS)
    kind = type(error).__name__
    logger.warning("%s failed: %s", task, kind)  # its text may hold a secret
    return f"internal error ({kind})"
