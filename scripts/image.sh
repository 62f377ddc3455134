#!/bin/sh
# Builds the image of the Dockerfile without a registry, and serves a client from it: `make image`, as root on Debian.
# A minimal Debian stands for the base image, which only a registry has; so its Python is Debian's and not 3.13.
# Needs buildah, debootstrap and Debian's packages and PyPI; about five minutes and 2 GB below .cache/image.
set -eu
cd "$(dirname "$0")/.."
for command in buildah debootstrap; do
    command -v "$command" > /dev/null || { echo "$command is missing: apt-get install buildah debootstrap" >&2; exit 1; }
done
folder="$PWD/.cache/image"
rm -rf "$folder"
mkdir -p "$folder"
export BUILDAH_ISOLATION=chroot
run() { buildah --root "$folder/store" --runroot "$folder/run" "$@"; }

debootstrap --variant=minbase --include=python3,python3-pip,ca-certificates bookworm "$folder/base" > "$folder/debootstrap.log"
rm -f "$folder"/base/usr/lib/python3*/EXTERNALLY-MANAGED
ln -s python3 "$folder/base/usr/bin/python"
cp /etc/ssl/certs/ca-certificates.crt "$folder/base/etc/ssl/certs/ca-certificates.crt"
container=$(run from scratch)
run copy -q "$container" "$folder/base" /
run config --env PIP_CERT=/etc/ssl/certs/ca-certificates.crt "$container"
run commit -q "$container" docker.io/library/python:3.13-slim-bookworm > /dev/null
run rm "$container" > /dev/null

run bud --format docker --network host --pull-never -t codemode-server .

printf 'servers: {}\n' > "$folder/upstream.yaml"
container=$(run from --pull-never localhost/codemode-server)
# In a process group of its own, which is ended as a whole.
setsid buildah --root "$folder/store" --runroot "$folder/run" run --user 10001 --network host \
    -v "$folder/upstream.yaml:/config/upstream.yaml:ro" "$container" -- codemode-server serve --http 127.0.0.1:18764 &
served=$!
trap 'kill -- "-$served" 2> /dev/null; wait "$served" || true; run rm --all > /dev/null' EXIT
.venv/bin/python -m scripts.image_client 18764 "$folder" "$container"
