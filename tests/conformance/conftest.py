"""The databases on which every store is tested."""

from tests.storage.conftest import database, place, postgres, thread

__all__ = ["database", "place", "postgres", "thread"]
