#!/bin/sh
# Builds wheel, source archive and collection into dist/, without the network: what builds is in the environment.
set -eu
cd "$(dirname "$0")/.."
rm -rf dist
hatchling build
ansible-galaxy collection build --force --output-path dist .
ls -l dist
