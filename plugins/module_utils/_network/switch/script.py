# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shell script that carries out a guarded change: all the lines but the change's own are the same for each."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from .guarded import Command, GuardedChange

# States of a switch, in its file `state`.
ARMED = "armed"
APPLIED = "applied"
ROLLING_BACK = "rolling_back"
CONFIRMED = "confirmed"
ROLLED_BACK = "rolled_back"

# What is decided of a change, in its file `decision`; after ABORT the reason follows.
CONFIRM, ABORT, LATE = "confirm", "abort", "late"

# What the commands of `apply` may take together beyond the time for the confirmation: one that hangs is killed then,
# and the change goes back.
APPLY_SECONDS = 30
# What the commands of each of these may take together, and one of them: a client for DHCP, or NetworkManager, may well
# need half a minute.
_LEAVE_SECONDS, _RESTORE_SECONDS, _LAST_RESORT_SECONDS, _KEEP_SECONDS = 30, 90, 60, 60
_ONE_SECONDS = 60
_TEST_SECONDS = 5
# What each command has at least, whatever those before it took; and then until SIGKILL, where SIGTERM does not do.
LEAST_SECONDS = 5
_KILL_SECONDS = 2
# With the question before it whether the host shuts down.
_LEAST_OF_EACH = _TEST_SECONDS + LEAST_SECONDS + _KILL_SECONDS
# For all the rest of going back: reading and writing a few files.
_FILES_SECONDS = 60

_SCRIPT = """#!/bin/sh
# Made by brine.virt: a change of this host that undoes itself unless the controller confirms it.
here={here} description={description}
umask 022

say() {{ echo "$*"; echo "$(date '+%H:%M:%S') $*" >>"$here/log"; }}
become() {{ echo "$1" >"$here/state.new" && mv -f "$here/state.new" "$here/state"; }}
# Of the confirmation, an abort and the end of the time, the first one decides, and the others learn that they are late:
# a link is made by one of them alone. The controller's side does the same.
decide() {{
    echo "$*" >"$here/decision.switch" && ln "$here/decision.switch" "$here/decision" 2>/dev/null
    rm -f "$here/decision.switch"
}}
decided() {{ [ -e "$here/decision" ]; }}
# Says why it goes back, where somebody has told it to.
told() {{
    decision=$(cat "$here/decision")
    case $decision in "{abort} "*) say "told to roll back: ${{decision#{abort} }}" ;; esac
}}
# Between two commands: not where it has been told to go back.
go_on() {{ ! decided || {{ told; return 1; }}; }}
# No clock of the day: a host that has its network back may set that.
now() {{ cut -d. -f1 /proc/uptime; }}
# Whether the host shuts down: what runs goes with its kernel then, and it boots with the files. Nothing would come of
# waiting for its network, as its services have ended. A soft reboot keeps the kernel, and its links.
shuts_down() {{
    [ "$(timeout {test_seconds} systemctl is-system-running 2>/dev/null)" = stopping ] &&
        ! timeout {test_seconds} systemctl list-jobs 2>/dev/null | grep -q -F soft-reboot.target
}}
# The commands that follow have so many seconds together.
allow() {{ end=$(($(now) + $1)); }}
# try MOST COMMAND...: the command has until the time is up, no more than MOST seconds and {least} s at least.
try() {{
    ! shuts_down || return 0
    limit=$((end - $(now))) most=$1
    shift
    [ "$limit" -le "$most" ] || limit=$most
    [ "$limit" -ge {least} ] || limit={least}
    timeout --kill-after={kill} "$limit" "$@" && return 0
    case $? in
    124 | 137) say "killed, as it took longer than $limit s: $*" ;;
    *) say "failed: $*" ;;
    esac
    return 1
}}

# put SOURCE TARGET MODE: whole or not at all, and on disk. No network manager reads a file with a leading dot.
put() {{
    folder=$(dirname "$2")
    new=$folder/.$(basename "$2").brine-new
    mkdir -p "$folder" && rm -f "$new" && (umask 077 && cp "$1" "$new") && chmod "$3" "$new" && sync "$new" &&
        mv -f "$new" "$2" && sync "$folder" || {{
        # On a full disk it would keep the old file from being written, too.
        rm -f "$new"
        say "cannot write $2"
        return 1
    }}
    ! command -v restorecon >/dev/null || restorecon "$2"
}}
drop() {{
    # Without its folder the file was never there.
    [ -d "$(dirname "$1")" ] || return 0
    rm -f "$1" && sync "$(dirname "$1")" || {{ say "cannot remove $1"; return 1; }}
}}
# The file NUMBER at PATH is still as it was when the change began.
unchanged() {{
    if [ -e "$here/before/$1" ]; then cmp -s "$here/before/$1" "$2"; else [ ! -e "$2" ]; fi ||
        {{ say "$2 was changed by somebody else meanwhile"; return 1; }}
}}
# What stands at PATH is the file NUMBER from now on: going back restores it.
mark() {{ : >"$here/placed/$1"; }}
# undo NUMBER PATH MODE
undo() {{
    [ -e "$here/placed/$1" ] || return 0
    if [ -e "$here/before/$1" ]; then
        put "$here/before/$1" "$2" "$3" || cmp -s "$here/before/$1" "$2"
    else
        drop "$2"
    fi || left_behind "$2"
}}
untry() {{ rm -f "$1" || left_behind "$1"; }}
left_behind() {{ lost "$1 is not as it was before the change"; }}
lost() {{
    say "$1"
    echo "$1" >>"$here/missing"
}}

begin() {{
    allow {apply_seconds}{begin}
}}
place() {{
    :{place}
}}
forget() {{
    :{forget}
}}
keep() {{
    allow {keep_seconds}{keep}
}}
leave() {{
    allow {leave_seconds}{leave}
}}
undo_files() {{
    :{undo_files}
}}
restore() {{
    allow {restore_seconds}{restore}
}}
mend() {{
    :{mend}
}}
back() {{
    :{back}
}}
# Everything that is wrong, by name.
complain() {{
    :{complain}
}}
# Until it is back, or the time is up. The network manager has half of it: what others give the host before it does, it
# takes for theirs.
await_return() {{
    until=$(($(now) + {return_seconds}))
    until shuts_down || back; do
        [ "$(now)" -lt "$until" ] || return 1
        [ "$(($until - $(now)))" -gt {mend_seconds} ] || mend
        sleep 1
    done
}}
last_resort() {{
    allow {last_resort_seconds}{last_resort}
}}

apply() {{
    sleep {delay}
    say "$description"
    begin || exit 1
    become {applied}
    until=$(($(now) + {seconds}))
    until decided; do
        if [ "$(now)" -lt "$until" ]; then
            sleep 1
        else
            decide {late}
            # Not where somebody has removed its folder: then nothing can be decided any more.
            decided || exit 1
        fi
    done
    case $(cat "$here/decision") in
    {confirm}) ;;
    {late}) say "not confirmed within {seconds} s"; exit 1 ;;
    *) told; exit 1 ;;
    esac
    place || exit 1
    become {confirmed}
    say "confirmed: it stays"
}}

# Whatever became of `apply`: runs when it has ended, or was killed.
settle() {{
    if [ "$(cat "$here/state")" = {confirmed} ]; then
        forget
        keep
        exit 0
    fi
    # From now on a confirmation is too late.
    decide {late}
    become {rolling_back}
    say "undoing it"
    leave
    forget
    undo_files
    restore
    await_return || {{
        say "not everything is back after {return_seconds} s: the last resort"
        last_resort
        await_return || complain
    }}
    ! shuts_down || lost "the host shuts down, and what runs is as before when it boots"
    ending="everything is as before"
    [ ! -e "$here/missing" ] || ending="not $ending: see the lines above"
    say "$ending"
    become {rolled_back}
}}

"$1"
"""


def script(change: GuardedChange, here: str, *, seconds: int, delay: int, old_modes: dict[int, int]) -> str:
    """The script of a change. Its words: ``apply``, and ``settle`` for when that has ended or was killed.

    here: its folder, with ``files/N`` (what the change's file N is to hold) and ``before/N`` (what was at its lasting
    path). seconds: how long it waits for the confirmation; delay: before it begins. old_modes: the permissions of what
    was at the lasting path, by N.
    """
    trials = [(number, file) for number, file in enumerate(change.files) if file.trial is not None]
    begin = [
        "go_on",
        *(
            f"put {_path(here, 'files', number)} {shlex.quote(file.trial or '')} {file.mode:04o}"
            for number, file in trials
            if file.text is not None
        ),
        *(line for one in _tries(change.apply, seconds + APPLY_SECONDS) for line in ("go_on", one)),
        "go_on",
    ]
    lasting = [(number, shlex.quote(file.lasting), file) for number, file in enumerate(change.files)]
    place = [f"unchanged {number} {path}" for number, path, _file in lasting]
    for number, path, file in lasting:
        act = f"drop {path}" if file.text is None else f"put {_path(here, 'files', number)} {path} {file.mode:04o}"
        place += [f"mark {number}", act]
    return _SCRIPT.format(
        here=shlex.quote(here),
        description=shlex.quote(change.description),
        begin=_all_or_nothing(begin),
        place=_all_or_nothing(place),
        forget=_lines(f"untry {shlex.quote(file.trial or '')}" for _number, file in trials),
        keep=_lines(_tries(change.keep, _ONE_SECONDS)),
        leave=_lines(_tries(change.leave, _ONE_SECONDS)),
        # The last first: each state in between is one that the way there has had.
        undo_files=_lines(
            f"undo {number} {path} {old_modes.get(number, file.mode):04o}" for number, path, file in reversed(lasting)
        ),
        restore=_lines(_tries(change.restore, _ONE_SECONDS)),
        mend=_lines(f"{_quietly(command)} || :" for command in change.mend),
        back=_all_or_nothing(_quietly(check.command) for check in change.back),
        complain=_lines(f"{_quietly(check.command)} || lost {shlex.quote(check.complaint)}" for check in change.back),
        last_resort=_lines(_tries(change.last_resort, _ONE_SECONDS)),
        delay=delay,
        seconds=seconds,
        apply_seconds=seconds + APPLY_SECONDS,
        keep_seconds=_KEEP_SECONDS,
        leave_seconds=_LEAVE_SECONDS,
        restore_seconds=_RESTORE_SECONDS,
        last_resort_seconds=_LAST_RESORT_SECONDS,
        return_seconds=change.return_seconds,
        mend_seconds=(change.return_seconds + 1) // 2,
        least=LEAST_SECONDS,
        kill=_KILL_SECONDS,
        test_seconds=_TEST_SECONDS,
        applied=APPLIED,
        confirmed=CONFIRMED,
        rolling_back=ROLLING_BACK,
        rolled_back=ROLLED_BACK,
        confirm=CONFIRM,
        abort=ABORT,
        late=LATE,
    )


def settle_seconds(change: GuardedChange) -> int:
    """What ``settle`` takes at most, with every command of it hanging: who ends it earlier cuts off the last resort."""
    parts = _LEAVE_SECONDS + _RESTORE_SECONDS + 2 * change.return_seconds + _LAST_RESORT_SECONDS
    # They may have begun just before the time is up, before the last resort and after it; then the checks once more.
    tests = (2 * len(change.mend) + 3 * len(change.back)) * (_TEST_SECONDS + _KILL_SECONDS)
    least = _LEAST_OF_EACH * len((*change.leave, *change.restore, *change.last_resort))
    kept = _KEEP_SECONDS + _LEAST_OF_EACH * len(change.keep)
    # Whether the host shuts down is asked once more in each of the two waits, and at the end.
    return max(parts + tests + least + 3 * _TEST_SECONDS, kept) + _FILES_SECONDS


def apply_seconds(change: GuardedChange, seconds: int, delay: int) -> int:
    """After how many seconds at most the change is applied, or has begun to go back."""
    least = _LEAST_OF_EACH * len(change.apply)
    return delay + seconds + APPLY_SECONDS + least + _FILES_SECONDS


def _quietly(command: Command) -> str:
    return f"timeout --kill-after={_KILL_SECONDS} {_TEST_SECONDS} {shlex.join(command)} >/dev/null 2>&1"


def _path(here: str, folder: str, number: int) -> str:
    return shlex.quote(f"{here}/{folder}/{number}")


def _tries(commands: Iterable[Command], most: int) -> list[str]:
    return [f"try {most} {shlex.join(command)}" for command in commands]


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"\n    {line}" for line in lines)


def _all_or_nothing(lines: Iterable[str]) -> str:
    return _lines(f"{line} || return 1" for line in lines)
