"""A model elsewhere, behind an OpenAI-compatible address; asked from the encoder's process.

There, an answer of any size or slowness holds up nothing, and what waits for it ends with the process.
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
"""Limit per text, about as much as models read."""
_MAX_ANSWER_BYTES = 32 * 2**20
_QUERY_SECONDS = 5.0
"""A search does not wait longer, whatever the setting; it has words to go by."""
_TRIES = 4
_LONGEST_PAUSE = 20.0
_REMEDY = "look at search.endpoint in upstream.yaml"


class Endpoint:
    """One address."""

    def __init__(self, given: dict[str, Any]) -> None:
        """Ask it for one vector, so as to know that it works and what size they have."""
        self._url: str = given["url"]
        self._model: str = given["model"]
        self._wanted: int | None = given["dimensions"]
        self._seconds: float = given["timeout"]
        self._at_once: int = given["batch"]
        self._query_prompt: str = given["query_prompt"] or ""
        self._document_prompt: str = given["document_prompt"] or ""
        key = given["api_key"]
        self._redactor = Redactor([key] if key else [])
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            follow_redirects=False,  # the key is for this address
        )
        dimensions = self._once(["search"], self._seconds).shape[1]
        address = urlsplit(self._url)
        what = [address.hostname, address.port, address.path, self._model, dimensions, self._document_prompt]
        self.name = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]

    def documents(self, texts: Sequence[str]) -> Rows:
        prompted = [self._document_prompt + text for text in texts]
        parts = [prompted[start : start + self._at_once] for start in range(0, len(texts), self._at_once)]
        return np.concatenate([self._patiently(part) for part in parts])

    def queries(self, texts: Sequence[str]) -> Rows:
        return self._once([self._query_prompt + text for text in texts], min(self._seconds, _QUERY_SECONDS))

    def _patiently(self, texts: list[str]) -> Rows:
        for attempt in range(1, _TRIES):
            try:
                return self._once(texts, self._seconds)
            except _Refused as error:
                if error.again != "whenever":
                    raise
                pause = 2.0 ** (attempt - 1) if error.pause is None else error.pause
                time.sleep(min(pause, _LONGEST_PAUSE))
        return self._once(texts, self._seconds)

    def _once(self, texts: list[str], seconds: float) -> Rows:
        asked: dict[str, Any] = {
            "model": self._model,
            "input": [text[:_MAX_CHARACTERS] or " " for text in texts],
            "encoding_format": "float",
        }
        if self._wanted is not None:
            asked["dimensions"] = self._wanted
        vectors = _vectors(self._answer(asked, seconds), len(texts))
        if self._wanted is not None and vectors.shape[1] != self._wanted:
            raise EncoderFailed(
                f"it gives vectors of {vectors.shape[1]} numbers, not of {self._wanted}",
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
                        raise EncoderFailed("its answer is larger than any may be", _REMEDY, again="few")
                    if time.monotonic() > until:
                        raise _Refused(f"it did not answer within {seconds:g} s")
        except httpx2.TimeoutException as error:
            raise _Refused(f"it did not answer within {seconds:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _Refused(f"it can't be reached: {self._redactor.line(str(error), 200)}") from error
        status = response.status_code
        if status == 200:
            return bytes(received)
        said = self._redactor.line(received.decode("utf-8", "replace"), 200)
        told = f"it answers {status}{f': {said}' if said else ''}"
        if status in (408, 425, 429) or status >= 500:
            raise _Refused(told, pause=_retry_after(response.headers.get("retry-after")))
        raise EncoderFailed(told, _REMEDY)


class _Refused(EncoderFailed):
    """Raised for what may be otherwise in a moment."""

    def __init__(self, reason: str, *, pause: float | None = None) -> None:
        super().__init__(reason, again="whenever")
        self.pause = pause


def _vectors(answer: bytes, rows: int) -> Rows:
    """The vectors in the order of the texts."""
    try:
        found = {item["index"]: item["embedding"] for item in json.loads(answer)["data"]}
        vectors = np.array([found[number] for number in range(rows)], np.float64)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise EncoderFailed("its answer is no list of embeddings, one for each text", _REMEDY, again="few") from error
    if vectors.ndim != 2 or not 1 <= vectors.shape[1] <= 65_536:
        raise EncoderFailed("its answer has embeddings that are no vectors", _REMEDY, again="few")
    if not np.isfinite(vectors).all():
        raise EncoderFailed("its answer has embeddings that are no numbers", _REMEDY, again="few")
    return vectors.astype(np.float32)


def _retry_after(header: str | None) -> float | None:
    return float(header) if header and header.isascii() and header.isdigit() and len(header) < 6 else None
