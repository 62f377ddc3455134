"""The product that the tests of a file share."""

from __future__ import annotations

import pytest

from .product import Host


@pytest.fixture
def host(shared: Host) -> Host:
    """The `shared` one of the file, of which no call is known yet."""
    shared.forget_calls()
    return shared
