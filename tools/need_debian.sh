#!/bin/sh
# need_debian.sh COMMAND[=PACKAGE]...: programs that no Python package brings, each in the Debian package of its name or
# of the one given. Installs what is missing where that is possible; elsewhere says what to install, and leaves it to
# those who need it to fail.
set -eu

commands="" packages=""
for need in "$@"; do
    command="${need%%=*}"
    if ! command -v "$command" >/dev/null 2>&1; then
        commands="$commands $command"
        packages="$packages ${need#*=}"
    fi
done
[ -n "$commands" ] || exit 0

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
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null; then
        exit 0
    fi
fi
echo "Missing:$commands. On Debian or Ubuntu: sudo apt-get install$packages" >&2
