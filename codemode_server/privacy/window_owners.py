"""Keeps the forms that have each window, and hands out a limited number of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from codemode_server.privacy.original_forms import Form


class WindowOwners:
    """May be asked in any thread while one changes it: what `at` returns is replaced as a whole."""

    def __init__(self, limit: int | None = None) -> None:
        """`limit`: how many forms `at` returns at most."""
        self._limit = limit
        self._owners: dict[bytes, tuple[Form, ...]] = {}
        self._beyond: dict[bytes, dict[Form, None]] = {}
        """The forms beyond the limit, in order; they move up when others are removed."""

    def __bool__(self) -> bool:
        return bool(self._owners)

    def at(self, window: bytes) -> tuple[Form, ...]:
        """Forms that have a canonical window, the longest first. If there are fewer than the limit, it is all of
        them."""
        return self._owners.get(window, ())

    def add(self, window: bytes, form: Form) -> None:
        owners = self._owners.get(window, ())
        if form in owners:
            return
        if len(owners) == self._limit:
            self._beyond.setdefault(window, {})[form] = None
        else:
            self._owners[window] = _ordered((*owners, form))

    def remove(self, windows: Iterable[bytes], form: Form) -> None:
        for window in windows:
            owners = self._owners.get(window, ())
            if form in owners:
                self._set(window, [it for it in owners if it is not form])
            elif (beyond := self._beyond.get(window)) is not None:
                beyond.pop(form, None)

    def _set(self, window: bytes, owners: list[Form]) -> None:
        beyond = self._beyond.get(window, {})
        for form in [*islice(beyond, 1)]:
            del beyond[form]
            owners.append(form)
        if not beyond:
            self._beyond.pop(window, None)
        if owners:
            self._owners[window] = _ordered(owners)
        else:
            self._owners.pop(window, None)


def _ordered(forms: Iterable[Form]) -> tuple[Form, ...]:
    return tuple(sorted(forms, key=lambda form: -len(form.characters)))
