#!/bin/bash
# Every check, also after one has failed, and a summary at the end: lint.sh [NAME...] runs only those named.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

failed=()
check() {
    local name=$1
    shift
    if ((${#only[@]})) && [[ " ${only[*]} " != *" $name "* ]]; then return; fi
    echo "== $name"
    "$@" || failed+=("$name")
}
only=("$@")

shell_scripts() {
    # Every file whose first line names a shell, wherever it lies.
    # shellcheck disable=SC2016  # the dollar is awk's
    find . \( -path ./.git -o -path ./.venv -o -path ./.cache -o -path ./build -o -path ./dist -o -path ./records \
        -o -name __pycache__ \) -prune -o -type f -size -200k -print0 |
        xargs -0 awk 'FNR == 1 { if ($0 ~ /^#!.*[\/ ](ba|da)?sh( |$)/) print FILENAME; nextfile }'
}

shell_check() {
    if ! command -v shellcheck >/dev/null; then
        echo "shellcheck is not installed (make system-test installs it)." >&2
        return 1
    fi
    shell_scripts | xargs shellcheck
}

ansible_lint() {
    # Its galaxy requirements are in the environment already, hence offline.
    ansible-lint --offline --strict --profile production -q playbooks roles
}

# Modules and the agent are programs of their own, found by Ansible and not by import; generics stay bare there because
# the code runs on Python 3.9.
mypy_plugins() {
    (
        cd plugins || exit 1
        MYPYPATH=module_utils:plugin_utils mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache/plugins \
            --no-error-summary --explicit-package-bases --allow-any-generics --no-warn-return-any \
            module_utils modules action
    )
}

check ruff ruff check --quiet .
check format ruff format --check --quiet .
check mypy mypy --no-error-summary labctl tests tools bench hatch_build.py
check mypy-plugins mypy_plugins
check ansible-lint ansible_lint
check yamllint yamllint --strict .
check codespell codespell
check shellcheck shell_check

if ((${#failed[@]})); then
    echo "Failed: ${failed[*]}" >&2
    exit 1
fi
echo "All checks passed."
