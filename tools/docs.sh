#!/bin/sh
# Generates everything that is made from the code; a test says when this is due.
set -eu
cd "$(dirname "$0")/.."
python -m tools.reference
python -m tools.support_matrix
if [ -f tools/role_readme.py ]; then
    python tools/role_readme.py
fi
