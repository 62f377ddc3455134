#!/bin/sh
# Makes the virtual environment FOLDER, if there is none, with the first Python that is new enough: venv.sh FOLDER
set -eu
[ ! -x "$1/bin/python" ] || exit 0
for python in "${PYTHON:-python3}" python3 python3.13 python3.12 python3.11; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$python; break; fi
done
if [ -z "${found:-}" ]; then
    echo "codemode-server needs Python 3.11 or newer; none was found. Install one, or name it: make PYTHON=/path/to/python3 …" >&2
    exit 1
fi
"$found" -m venv "$1" || {
    echo "python -m venv failed; on Debian and Ubuntu: apt-get install python3-venv" >&2
    exit 1
}
