#!/bin/sh
# Prints the first working Python 3.11 or newer. A name on PATH proves nothing: version managers leave shims that only
# complain. LABCTL_PYTHON names one explicitly.
set -eu

usable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

for python in ${LABCTL_PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
    if usable "$python"; then
        "$python" -c 'import sys; print(sys.executable)'
        exit 0
    fi
done

if [ -n "${LABCTL_PYTHON:-}" ]; then
    echo "LABCTL_PYTHON=$LABCTL_PYTHON is not a working Python 3.11 or newer." >&2
else
    echo "No working Python 3.11 or newer was found (looked for python3, python3.14 to python3.11, python)." >&2
    echo "Install one (Debian 12, Ubuntu 24.04: python3; RHEL 9 and its like: python3.12; SUSE: python312)" >&2
    echo "or name one: make quickstart LABCTL_PYTHON=/path/to/python3" >&2
fi
exit 1
