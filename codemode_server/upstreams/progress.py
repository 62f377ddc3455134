"""Exchange between a call and its connection while it is under way: progress, input requests and retries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from codemode_server.domain.calls import RetryReason
from codemode_server.domain.input_requests import InputProvider
from codemode_server.support.redaction import Redactor

MAX_MESSAGE_CHARACTERS = 1_000
_MAX_READ_CHARACTERS = 100_000
"""A longer message is no line of progress, and is left out."""


@dataclass(slots=True)
class CallProgress:
    """The latest progress report of one call: the connection writes it, and the front reads it. `message` and
    `fraction` are the upstream's own text and number."""

    message: str = ""
    fraction: float | None = None
    """0 to 1; None if the upstream gave no total."""
    reported_at: float | None = None
    """Time of the event loop; None until the first report."""
    restart: Literal["", "restarted", "reconnected"] = ""
    """`restarted` or `reconnected`, if that happened to the upstream since the call before: its state may be lost."""
    input_provider: InputProvider | None = None
    """Answers what the upstream asks meanwhile; None: nothing is answered."""
    protect: Callable[[str], str] = str
    """Replaces personal data in a message."""
    on_retry: Callable[[RetryReason], None] | None = None
    """Called right before the call is sent after a failed attempt."""
    retry_reason: RetryReason | None = None
    """Why the call is to be tried again; None: no attempt has failed since it was last sent."""
    is_sent: bool = False
    """True once an attempt has begun."""

    @property
    def may_have_arrived(self) -> bool:
        """True if the upstream may carry the call out, or may have done it."""
        return self.is_sent and self.retry_reason is None

    def begin_attempt(self) -> None:
        """The call is sent now. A retry is reported no earlier, as the upstream may not come back, and the permissions
        may refuse the call meanwhile."""
        reason, self.retry_reason, self.is_sent = self.retry_reason, None, True
        if reason is not None and self.on_retry is not None:
            self.on_retry(reason)

    def take(self, done: float, total: float | None, message: str | None, now: float, redactor: Redactor) -> None:
        """Take in one progress notification."""
        whole = message if message and len(message) <= _MAX_READ_CHARACTERS else ""
        # Redacted before it is cut: half a secret would not be recognised.
        self.message = self.protect(redactor.visible(whole)[: 2 * MAX_MESSAGE_CHARACTERS])[:MAX_MESSAGE_CHARACTERS]
        self.reported_at = now
        self.fraction = None
        if total is not None and math.isfinite(total) and math.isfinite(done) and total > 0:
            self.fraction = min(1.0, max(0.0, done / total))
