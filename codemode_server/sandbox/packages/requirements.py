"""Checks what `sandbox.packages` lists: names of packages with versions, and nothing else that installers take."""

from __future__ import annotations

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from codemode_server.sandbox.guest.advice import DISTRIBUTIONS
from codemode_server.support.setting_types import ProblemWithin

_PACKAGES_BY_MODULE = {canonicalize_name(module): package for module, package in DISTRIBUTIONS.items()}


def check(packages: tuple[str, ...]) -> None:
    """Raises `ProblemWithin` for the first that is no name with versions, or is listed twice."""
    seen: dict[str, str] = {}
    for index, text in enumerate(packages):
        name = canonicalize_name(_requirement(text, index).name)
        if package := _PACKAGES_BY_MODULE.get(name):  # the index may have somebody else's of that name
            raise ProblemWithin(f"is the name of a module; write its package: `{package}`", index)
        if name in seen:
            raise ProblemWithin(f"is listed twice: `{seen[name]}` and `{text}`", index)
        seen[name] = text


def _requirement(text: str, index: int) -> Requirement:
    if text.lstrip().startswith("-"):
        raise ProblemWithin("is an option; only names of packages with versions can be listed", index)
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        problem = "is an address or a path" if any(it in text for it in ("/", "\\", ".whl")) else "is no package"
        raise ProblemWithin(f"{problem}; write a name, and versions if need be: `openpyxl>=3.1`", index) from None
    if requirement.url is not None:
        raise ProblemWithin("names an address; packages come from the package index only", index)
    if requirement.marker is not None:
        raise ProblemWithin("has a condition; a package is listed or it is not", index)
    if not text.isprintable():
        raise ProblemWithin("has a character that can't be seen", index)
    return requirement
