#!/bin/sh
# Makes .cache/demo/venv with the product's dependencies, the sandbox's component, and the servers of the demo, where
# they are missing or were made of something else: 290 MB, from locks with hashes. What builds the component is removed.
set -eu
cd "$(dirname "$0")/.."
venv=.cache/demo/venv
lock=requirements/product.txt
build=codemode_server/sandbox/backends/wasm/build.py

install() { "$venv/bin/python" -m pip install --quiet --no-compile --require-hashes "$@"; }
product() {
    cmp -s $lock $venv/product.txt && return
    echo "installing the packages of codemode-server (once)" >&2
    install --requirement $lock
    cp $lock $venv/product.txt
    echo "the packages of codemode-server are installed" >&2
}
component() {
    "$venv/bin/python" $build --if-stale 2>/dev/null && return
    echo "building the sandbox's component (once)" >&2
    install --target $venv/builder --requirement requirements/component.txt
    PYTHONPATH="$PWD/$venv/builder" "$venv/bin/python" $build
    rm -r $venv/builder
}

[ -x $venv/bin/python ] || echo "installing into .cache, once: takes about a minute" >&2
sh scripts/venv.sh $venv
# At once, since each waits for the network much of its time.
component & component=$!
"$venv/bin/python" -m scripts.real_servers git time orders & servers=$!
product
wait $component
wait $servers
