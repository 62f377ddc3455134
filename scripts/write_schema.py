"""Writes docs/upstream.schema.json, which editors check `upstream.yaml` against.

After a change of the settings: `python -m scripts.write_schema`.
"""

from __future__ import annotations

import json
from pathlib import Path

from codemode_server.settings import json_schema

if __name__ == "__main__":
    file = Path(__file__).parents[1] / "docs" / "upstream.schema.json"
    file.write_text(json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
