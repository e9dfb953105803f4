# SPDX-License-Identifier: GPL-3.0-or-later
# What the shell programs of the gate share. To be sourced; `root` is the top of the checkout.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Variables that a git hook sets would point our git commands at another repository.
unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE

say() {
    printf '== %s\n' "$*"
}

# stop SENTENCE: a prerequisite is missing; 2 tells it from a test that failed.
stop() {
    printf '%s\n' "$*" >&2
    exit 2
}

# alive TEXT COMMAND...: run a long command quietly, say each 20 seconds that it still runs, show its output only if it
# fails.
alive() {
    local text=$1 log pid shown=0 status=0
    shift
    say "$text"
    mkdir -p "$root/.build/log"
    log=$root/.build/log/setup.log
    local began=$SECONDS
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        if ((SECONDS - began >= shown + 20)); then
            shown=$((SECONDS - began))
            printf '   %s: still at it after %d s\n' "$text" "$shown"
        fi
    done
    wait "$pid" || status=$?
    if ((status)); then
        tail -n 60 "$log" >&2
        printf '%s: failed (exit %d); the whole output is in %s\n' "$text" "$status" "$log" >&2
        exit 1
    fi
}

# python_path MINOR: print a python3.MINOR that really starts. A version manager's shim may be found first on PATH and
# refuse to run, so every candidate is tried.
python_path() {
    local candidate version
    for candidate in "/usr/bin/python3.$1" $(type -aP "python3.$1"); do
        if "$candidate" -c 'import sys' >/dev/null 2>&1; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return 0
        fi
    done
    if command -v pyenv >/dev/null; then
        version=$(pyenv versions --bare 2>/dev/null | grep "^3\.$1\.[0-9]*$" | sort -V | tail -n 1)
        candidate=$(pyenv prefix "$version" 2>/dev/null)/bin/python3.$1
        if [[ -n $version ]] && "$candidate" -c 'import sys' >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return 0
        fi
    fi
    return 1
}

# first_python MINOR...: print the first of these versions that is on the machine.
first_python() {
    local minor
    for minor in "$@"; do
        python_path "$minor" && return 0
    done
    return 1
}

# controller_python: the interpreter for ansible-core 2.19 (3.11 to 3.13). The distribution's own comes first, because
# apt can supply what it lacks.
controller_python() {
    local supported='import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))'
    if [[ -x /usr/bin/python3 ]] && /usr/bin/python3 -c "$supported"; then
        echo /usr/bin/python3
    else
        first_python 11 12 13
    fi
}

# become_python ARGUMENT...: hand over to a Python for the tests' own programs, which need 3.11 and its standard library
# only. It writes no bytecode: root runs this in a checkout that may belong to somebody else.
become_python() {
    local python
    python=$(controller_python || first_python 14) ||
        stop "Python 3.11 or newer is needed, and none is on this machine."
    exec "$python" -B "$@"
}
