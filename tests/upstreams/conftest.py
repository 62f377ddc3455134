"""One fixture for the tests of this folder."""

from __future__ import annotations

import pytest

from tests.upstreams.kit import Kit


@pytest.fixture
def kit() -> Kit:
    return Kit()
