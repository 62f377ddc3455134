"""Makes sure for `.ci/run` that Chromium and its driver are installed: python -m scripts.chromium

`tests/web/test_ui_in_chromium.py` opens the pages of `codemode-server ui` with it. Standard library only.
"""

from __future__ import annotations

import sys

from scripts.vm import parts


def main() -> int:
    try:
        parts.install({"chromium": "chromium", "chromedriver": "chromium-driver"})
    except parts.Unavailable as error:
        sys.stderr.write(f"\n!! Chromium is missing and could not be installed:\n{error}\n\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
