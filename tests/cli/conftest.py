"""The commands about the sandbox get a home of microsandbox of their own."""

from tests.catalog.conftest import real_listings
from tests.microvm.conftest import msb_home

__all__ = ["msb_home", "real_listings"]
