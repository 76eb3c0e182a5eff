#!/bin/sh
# make_venv.sh PYTHON VENV: a virtual environment that works, on a machine that may lack the means to make one.
set -eu
python=$1
venv=$2

if ! command -v "$python" >/dev/null 2>&1; then
    echo "insync needs Python 3.11 or newer, and there is no '$python' here. Try: make PYTHON=/path/to/python3 ..." >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "insync needs Python 3.11 or newer; '$python' is $("$python" --version 2>&1). Try: make PYTHON=python3.12 ..." >&2
    exit 1
fi

# An environment that still runs is kept; one whose interpreter has gone (a moved checkout) is made again.
if "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

# Debian ships venv without ensurepip until python3-venv is installed.
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv
    else
        echo "'$python' cannot make virtual environments. On Debian or Ubuntu: sudo apt-get install python3-venv" >&2
        exit 1
    fi
fi
"$python" -m venv --clear "$venv"
