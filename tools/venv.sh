#!/bin/sh
# Makes or updates the virtual environment: venv.sh runtime|dev [DIRECTORY].
# What it was made from is kept in a stamp, so a second call with nothing changed does nothing. The dev set contains the
# runtime set, so it serves both.
set -eu

set_name=${1:?usage: venv.sh runtime|dev [DIRECTORY]}
cd "$(dirname "$0")/.."
venv=${2:-.venv}
case $set_name in
runtime) lock=requirements.lock ;;
dev) lock=requirements-dev.lock ;;
*)
    echo "venv.sh: unknown set '$set_name' (runtime or dev)" >&2
    exit 2
    ;;
esac

# The path is part of it: an environment does not survive being moved.
inputs() {
    pwd
    cksum "$1" pyproject.toml
    "$venv/bin/python" -c 'import sys; print(sys.version, sys.prefix)' 2>/dev/null || echo 'no interpreter'
}

up_to_date() {
    [ -f "$venv/.ready-$1" ] && inputs "$2" | cmp -s - "$venv/.ready-$1"
}

if up_to_date dev requirements-dev.lock || { [ "$set_name" = runtime ] && up_to_date runtime requirements.lock; }; then
    exit 0
fi

uv=${LABCTL_UV:-uv}
if [ "$uv" = none ] || ! "$uv" --version >/dev/null 2>&1; then
    uv=
fi
python=$(tools/find-python.sh) || {
    [ -n "$uv" ] && [ -z "${LABCTL_PYTHON:-}" ] || exit 1
    echo "uv is asked for a Python instead." >&2
    python='>=3.11'
}

rm -f "$venv"/.ready-*
started=$(date +%s)
echo "Making the environment $venv ($set_name packages, with ${uv:-pip}) ..."
if [ -n "$uv" ]; then
    "$venv/bin/python" -c '' 2>/dev/null || "$uv" venv --quiet --clear --python "$python" "$venv"
    VIRTUAL_ENV=$PWD/$venv
    case $venv in /*) VIRTUAL_ENV=$venv ;; esac
    export VIRTUAL_ENV
    "$uv" pip install --quiet --require-hashes -r "$lock" || {
        echo "uv could not install the packages. LABCTL_UV=none makes pip do it, with pip's own configuration." >&2
        exit 1
    }
    "$uv" pip install --quiet --no-deps --no-build-isolation -e .
else
    if ! "$venv/bin/python" -c '' 2>/dev/null; then
        "$python" -m venv --clear "$venv" || {
            echo "$python has no working venv module. On Debian and Ubuntu: apt-get install python3-venv" >&2
            exit 1
        }
    fi
    # An environment that uv made has no pip.
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
    pip="$venv/bin/python -m pip --quiet --disable-pip-version-check --no-input"
    $pip install --require-hashes -r "$lock"
    $pip install --no-deps --no-build-isolation -e .
fi

# Ansible finds collections on sys.path, but only below ansible_collections/: with this link `ansible-playbook` knows
# labctl.lab.* of this very checkout, as it does after `pip install labctl`.
collections=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ansible_collections
mkdir -p "$collections/labctl"
ln -sfn "$PWD" "$collections/labctl/lab"

inputs "$lock" >"$venv/.ready-$set_name"
echo "Ready after $(($(date +%s) - started)) s."
