"""Loads each encoder once, to tell `status` and `doctor` which ranker works on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from codemode_server.domain.errors import CodemodeError, EncoderFailed
from codemode_server.search.semantic import SemanticEncoder
from codemode_server.search.static import StaticEncoder
from codemode_server.search.vectors import Encoder
from codemode_server.settings import SearchSettings


@dataclass(frozen=True, slots=True)
class SearchDiagnosis:
    """The best ranker that works, and why there is none better."""

    level: Literal["lexical", "static", "semantic"]
    description: str
    """Ranking method, for people."""
    is_met: bool
    """True if it satisfies the settings."""
    problem: str = ""
    """Why a better ranker failed, if one was tried."""
    remedy: str = ""

    @property
    def text(self) -> str:
        if not self.problem:
            return f"{self.level}, by {self.description}"
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.level}, by {self.description}, since there is no better: {self.problem}{remedy}"


def diagnose(settings: SearchSettings) -> SearchDiagnosis:
    """Blocks for seconds with a large model. Downloads nothing."""
    problem = remedy = ""
    rankers: list[tuple[Literal["static", "semantic"], Encoder]] = []
    if settings.ranker in ("auto", "semantic"):
        rankers.append(("semantic", SemanticEncoder(settings, may_download=False)))
    if settings.ranker != "lexical":
        rankers.append(("static", StaticEncoder()))
    for level, encoder in rankers:
        if (error := _tried(encoder)) is None:
            is_met = settings.ranker in ("auto", level)
            return SearchDiagnosis(level, f"words and {encoder.description}", is_met, problem, remedy)
        if not problem:
            problem, remedy = (error.reason, error.remedy) if isinstance(error, EncoderFailed) else (str(error), "")
    return SearchDiagnosis("lexical", "words", settings.ranker in ("auto", "lexical"), problem, remedy)


def _tried(encoder: Encoder) -> CodemodeError | None:
    """The error of an encoder; None if it works."""
    try:
        encoder.load()
        encoder.queries(["search"])
    except CodemodeError as error:
        return error
    finally:
        encoder.close()
    return None
