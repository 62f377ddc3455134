#!/bin/sh
# Renews the locks in requirements/: `make lock`, and `make lock ARGS=--upgrade` for newer versions.
#   dev.txt        the project's dependencies and its group `dev`;  tools.txt: the group `tools`
#   product.txt    the project's dependencies, and component.txt: the group `component`, for the demo; as in dev.txt
#   servers-*.txt  real MCP servers, from the .in file beside each;  npm/*/: npm packages
# Each lock holds for every Python from 3.11 on and every system, with the hashes of all files and no index's address.
set -eu
cd "$(dirname "$0")/.."
python() {
    out=$1
    shift
    .cache/tools/bin/uv pip compile --quiet --universal --python-version=3.11 --generate-hashes --no-strip-extras \
        --no-emit-index-url --no-emit-find-links --custom-compile-command="make lock" \
        --output-file="requirements/$out" "$@"
}
python dev.txt --group=dev pyproject.toml "$@"
python product.txt --constraint=requirements/dev.txt pyproject.toml "$@"
python component.txt --group=pyproject.toml:component --constraint=requirements/dev.txt "$@"
python tools.txt --group=pyproject.toml:tools "$@"
for source in requirements/*.in; do
    python "$(basename "$source" .in).txt" "$source" "$@"
done
for manifest in requirements/npm/*/package.json; do
    # --force: the binary of Node has a package for each system, and all of them are locked.
    (cd "$(dirname "$manifest")" && npm install --package-lock-only --ignore-scripts --no-audit --no-fund \
        --loglevel=error --omit-lockfile-registry-resolved --force)
done
