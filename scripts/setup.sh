#!/bin/sh
# Makes .venv with the project in it, editable, and what its tests need: nothing but files whose hashes
# requirements/dev.txt has, the build backend among them. `make lock` renews that file.
set -eu
cd "$(dirname "$0")/.."
venv=.venv
sh scripts/venv.sh "$venv"
echo "setting up $venv, once: takes minutes" >&2
"$venv/bin/python" -m pip install --quiet --require-hashes --requirement requirements/dev.txt
"$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable .
