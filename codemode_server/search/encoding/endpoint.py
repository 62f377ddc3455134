"""Calls a model behind an OpenAI-compatible address, from the encoder's process.

A large or slow answer blocks nothing there, and a pending request ends with the process.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx2
import numpy as np
from numpy.typing import NDArray

from codemode_server.domain.errors import EncoderFailed
from codemode_server.redaction import Redactor

Rows = NDArray[np.float32]

_MAX_CHARACTERS = 8_000
"""Limit for each text, about the input limit of models."""
_MAX_ANSWER_BYTES = 32 * 2**20
_QUERY_SECONDS = 5.0
"""A search waits no longer, whatever the setting, since it can rank by words."""
_TRIES = 4
_MAX_PAUSE_SECONDS = 20.0
_REMEDY = "check search.endpoint in upstream.yaml"


class Endpoint:
    """One embedding endpoint."""

    def __init__(self, given: dict[str, Any]) -> None:
        """Requests one vector, to check that it works and to learn the number of dimensions."""
        self._url: str = given["url"]
        self._model: str = given["model"]
        self._dimensions: int | None = given["dimensions"]
        self._seconds: float = given["timeout"]
        self._batch_texts: int = given["batch"]
        self._query_prompt: str = given["query_prompt"] or ""
        self._document_prompt: str = given["document_prompt"] or ""
        key = given["api_key"]
        self._redactor = Redactor([key] if key else [])
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            follow_redirects=False,  # the key must not reach another address
        )
        dimensions = self._request(["search"], self._seconds).shape[1]
        address = urlsplit(self._url)
        what = [address.hostname, address.port, address.path, self._model, dimensions, self._document_prompt]
        self.name = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]

    def documents(self, texts: Sequence[str]) -> Rows:
        prompted = [self._document_prompt + text for text in texts]
        parts = [prompted[start : start + self._batch_texts] for start in range(0, len(texts), self._batch_texts)]
        return np.concatenate([self._with_retries(part) for part in parts])

    def queries(self, texts: Sequence[str]) -> Rows:
        return self._request([self._query_prompt + text for text in texts], min(self._seconds, _QUERY_SECONDS))

    def _with_retries(self, texts: list[str]) -> Rows:
        for attempt in range(1, _TRIES):
            try:
                return self._request(texts, self._seconds)
            except _Transient as error:
                if error.retry != "transient":
                    raise
                pause = 2.0 ** (attempt - 1) if error.pause is None else error.pause
                time.sleep(min(pause, _MAX_PAUSE_SECONDS))
        return self._request(texts, self._seconds)

    def _request(self, texts: list[str], seconds: float) -> Rows:
        asked: dict[str, Any] = {
            "model": self._model,
            "input": [text[:_MAX_CHARACTERS] or " " for text in texts],
            "encoding_format": "float",
        }
        if self._dimensions is not None:
            asked["dimensions"] = self._dimensions
        vectors = _vectors(self._answer(asked, seconds), len(texts))
        if self._dimensions is not None and vectors.shape[1] != self._dimensions:
            raise EncoderFailed(
                f"it gives vectors of {vectors.shape[1]} numbers, not of {self._dimensions}",
                "correct search.endpoint.dimensions in upstream.yaml, or leave it out",
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Rows = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        return unit

    def _answer(self, asked: dict[str, Any], seconds: float) -> bytes:
        until = time.monotonic() + seconds
        received = bytearray()
        try:
            with self._client.stream("POST", self._url, json=asked, timeout=seconds) as response:
                for part in response.iter_bytes():
                    received += part
                    if len(received) > _MAX_ANSWER_BYTES:
                        raise EncoderFailed("its answer is too large", _REMEDY, retry="limited")
                    if time.monotonic() > until:
                        raise _Transient(f"it did not answer within {seconds:g} s")
        except httpx2.TimeoutException as error:
            raise _Transient(f"it did not answer within {seconds:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _Transient(f"it can't be reached: {self._redactor.line(str(error), 200)}") from error
        status = response.status_code
        if status == 200:
            return bytes(received)
        body = self._redactor.line(received.decode("utf-8", "replace"), 200)
        description = f"it answers {status}{f': {body}' if body else ''}"
        if status in (408, 425, 429) or status >= 500:
            raise _Transient(description, pause=_retry_after(response.headers.get("retry-after")))
        raise EncoderFailed(description, _REMEDY)


class _Transient(EncoderFailed):
    """Raised for a transient failure."""

    def __init__(self, reason: str, *, pause: float | None = None) -> None:
        super().__init__(reason, retry="transient")
        self.pause = pause


def _vectors(answer: bytes, rows: int) -> Rows:
    """The vectors in the order of the texts."""
    try:
        found = {item["index"]: item["embedding"] for item in json.loads(answer)["data"]}
        vectors = np.array([found[number] for number in range(rows)], np.float64)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise EncoderFailed(
            "its answer is not a list with one embedding for each text", _REMEDY, retry="limited"
        ) from error
    if vectors.ndim != 2 or not 1 <= vectors.shape[1] <= 65_536:
        raise EncoderFailed("its answer has embeddings that are not vectors", _REMEDY, retry="limited")
    if not np.isfinite(vectors).all():
        raise EncoderFailed("its answer has embeddings that are not finite numbers", _REMEDY, retry="limited")
    return vectors.astype(np.float32)


def _retry_after(header: str | None) -> float | None:
    return float(header) if header and header.isascii() and header.isdigit() and len(header) < 6 else None
