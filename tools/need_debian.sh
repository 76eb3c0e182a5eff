#!/bin/sh
# need_debian.sh COMMAND...: programs that tests run and that no Python package brings, each in the Debian package of its
# name. Installs what is missing where that is possible; elsewhere says what to install, and leaves it to the tests that
# need it to fail.
set -eu

missing=""
for command in "$@"; do
    command -v "$command" >/dev/null 2>&1 || missing="$missing $command"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    as_root="no"
fi

if [ "$as_root" != "no" ] && command -v apt-get >/dev/null 2>&1; then
    # shellcheck disable=SC2086  # both are lists of words
    if $as_root apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
        exit 0
    fi
fi
echo "Tests will fail without:$missing. On Debian or Ubuntu: sudo apt-get install$missing" >&2
