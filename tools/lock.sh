#!/bin/sh
# Resolves requirements.lock (what users run) and requirements-dev.lock (the same versions plus the developers' tools),
# for every platform and Python version at once, with hashes and without the address of any index.
# Versions already locked stay; `tools/lock.sh --upgrade` takes the newest.
set -eu
cd "$(dirname "$0")/.."
if ! command -v uv >/dev/null; then
    echo "uv is needed to resolve the lock files: python3 -m pip install uv" >&2
    exit 1
fi

compile() {
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
        --custom-compile-command 'make lock' pyproject.toml tools/build-requirements.in "$@"
}
compile -o requirements.lock "$@"
compile --extra dev -c requirements.lock -o requirements-dev.lock "$@"
