"""Loads each encoder once, to tell `status` and `doctor` which ranker works on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from codemode_server.domain.errors import CodemodeError, EncoderFailed
from codemode_server.search.encoding.build_encoders import SemanticEncoder, TableEncoder
from codemode_server.search.encoding.client import LoadableEncoder
from codemode_server.settings import SearchSettings


@dataclass(frozen=True, slots=True)
class SearchDiagnosis:
    """The best ranker that works, and why there is none better."""

    level: Literal["lexical", "static", "semantic"]
    """The best ranker that works."""
    description: str
    """What it ranks by, for people."""
    is_met: bool
    """Whether it satisfies the settings."""
    problem: str = ""
    """Why a better ranker failed, if one was tried."""
    remedy: str = ""

    @property
    def text(self) -> str:
        if not self.problem:
            return f"{self.level}, by {self.description}"
        more = f"; {self.remedy}" if self.remedy else ""
        return f"{self.level}, by {self.description}, since there is no better: {self.problem}{more}"


def diagnose(settings: SearchSettings) -> SearchDiagnosis:
    """Blocks for seconds with a large model. Downloads nothing."""
    words = SearchDiagnosis("lexical", "words", settings.ranker == "lexical")
    if settings.ranker == "lexical":
        return words
    problem: CodemodeError | None = None
    if settings.ranker != "static":
        encoder = SemanticEncoder(settings, may_download=False)
        problem = _tried(encoder)
        if problem is None:
            return SearchDiagnosis("semantic", f"words and {encoder.description}", is_met=True)
    is_met = settings.ranker == "auto" and settings.endpoint is None
    table = TableEncoder()
    no_table = _tried(table)
    if no_table is None:
        return SearchDiagnosis(
            "static", f"words and {table.description}", is_met or problem is None, *_reason_and_remedy(problem)
        )
    return SearchDiagnosis("lexical", "words", is_met, *_reason_and_remedy(problem or no_table))


def _tried(encoder: LoadableEncoder) -> CodemodeError | None:
    """The error of an encoder; None if it works."""
    try:
        encoder.load()
        encoder.queries(["search"])
    except CodemodeError as error:
        return error
    finally:
        encoder.close()
    return None


def _reason_and_remedy(problem: CodemodeError | None) -> tuple[str, str]:
    if isinstance(problem, EncoderFailed):
        return problem.reason, problem.remedy
    return str(problem or ""), ""
