"""Why an export over HTTP failed: OpenTelemetry's exporters only log it."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import requests

Reason = Callable[[], str]


class NotingSession(requests.Session):
    """Sends as usual, and remembers how the last request failed, without what the collector said."""

    def __init__(self) -> None:
        super().__init__()
        self._reason = "no request was sent"

    def reason(self) -> str:
        return self._reason

    def send(self, request: requests.PreparedRequest, **rest: Any) -> requests.Response:
        try:
            response = super().send(request, **rest)
        except requests.Timeout:
            self._reason = "no answer in time"
            raise
        except requests.RequestException:
            self._reason = "no connection"
            raise
        self._reason = _answer(response.status_code)
        return response


def _answer(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"
