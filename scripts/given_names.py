"""Makes `codemode_server/privacy/given_names.txt` from the lists of first names of Faker (MIT license).

    pip install faker && python -m scripts.given_names

Words that also begin titles, and names of places and months, are left out: `given_names_left_out.txt`.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from codemode_server.privacy.given_names import FILE, folded

_LOCALES = """
    cs_CZ da_DK de_AT de_CH de_DE en_GB en_IE en_IN en_NZ en_PK en_US es_AR es_CL es_CO es_ES es_MX et_EE fi_FI fr_BE
    fr_CH fr_DZ fr_FR fr_QC ga_IE hr_HR hu_HU id_ID is_IS it_IT lt_LT lv_LV nl_BE nl_NL no_NO pl_PL pt_BR pt_PT ro_RO
    sk_SK sl_SI sv_SE tr_TR vi_VN
"""
_MIN_LETTERS = 3
_LEFT_OUT = Path(__file__).with_name("given_names_left_out.txt")


def names() -> Iterator[str]:
    """The first names of all locales, each part of a double one by itself."""
    for locale in _LOCALES.split():
        provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
        for attribute in dir(provider):
            listed = getattr(provider, attribute)
            if attribute.startswith("first_name") and isinstance(listed, Iterable):
                for name in listed:
                    yield from re.split(r"[ -]", str(name))


def main() -> int:
    left_out = set(_LEFT_OUT.read_text(encoding="ascii").split())
    found = {folded(name) for name in names()}
    kept = sorted(
        it for it in found if it.isascii() and it.isalpha() and len(it) >= _MIN_LETTERS and it not in left_out
    )
    FILE.write_text("\n".join(kept) + "\n", encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
