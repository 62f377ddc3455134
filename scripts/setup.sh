#!/bin/sh
# Makes .venv with the project in it, editable, and what its tests need: nothing but files whose hashes
# requirements/dev.txt has, the build backend among them. `make lock` renews that file.
set -eu
cd "$(dirname "$0")/.."
venv=.venv
for python in "${PYTHON:-python3}" python3 python3.13 python3.12 python3.11; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$python; break; fi
done
if [ -z "${found:-}" ]; then
    echo "codemode-server needs Python 3.11 or newer; none was found. Install one, or name it: make PYTHON=/path/to/python3 …" >&2
    exit 1
fi
if [ ! -x "$venv/bin/python" ]; then
    "$found" -m venv "$venv" || {
        echo "python -m venv failed; on Debian and Ubuntu: apt-get install python3-venv" >&2
        exit 1
    }
fi
echo "setting up $venv, once: takes minutes" >&2
"$venv/bin/python" -m pip install --quiet --require-hashes --requirement requirements/dev.txt
"$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable .
