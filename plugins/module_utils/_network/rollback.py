# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of a host's network that undoes itself unless somebody outside confirms it: a dead man's switch.

A transient unit of systemd puts the files into /run/systemd/network, where they last until the next boot at most, and
waits. Confirmed, it moves them to /etc/systemd/network. Not confirmed in time, stopped or killed, it removes them and
gives the uplink back. A host that loses its power half-way boots with its old network.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
import time
import typing as t
from dataclasses import asdict

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._base.files import read_text
from ansible_collections.brine.virt.plugins.module_utils._network.change import Change
from ansible_collections.brine.virt.plugins.module_utils._network.networkd import NetworkdFile
from ansible_collections.brine.virt.plugins.module_utils._network.observe import run

_STATE_ROOT = "/run/brine-virt"
# Time for the answer "armed" to reach the controller over the old network.
_DELAY_SECONDS = 3
# How long going back waits for the uplink's addresses before it starts systemd-networkd again.
_RETURN_SECONDS = 20

# States of a switch, in its file `state`.
ARMED = "armed"
APPLIED = "applied"
ROLLING_BACK = "rolling_back"
CONFIRMED = "confirmed"
ROLLED_BACK = "rolled_back"

_SCRIPT = """#!/bin/sh
# Made by brine.virt, role virt_bridge: the switch of the bridge {bridge}. See the role's README.
bridge={bridge} uplink={uplink} files={files} addresses={addresses}
here={here} volatile=/run/systemd/network lasting=/etc/systemd/network

say() {{ echo "$*"; echo "$(date '+%H:%M:%S') $*" >>"$here/log"; }}
become() {{ echo "$1" >"$here/state.new" && mv -f "$here/state.new" "$here/state"; }}
reload() {{ networkctl reload || systemctl restart systemd-networkd.service; }}

apply() {{
    sleep {delay}
    say "adding $uplink to $bridge"
    mkdir -p "$volatile" || exit 1
    for file in $files; do cp "$here/files/$file" "$volatile/$file" || exit 1; done
    reload || exit 1
    become {applied}
    waited=0
    while [ ! -e "$here/confirm" ]; do
        [ -e "$here/abort" ] && {{ say "told to roll back: $(cat "$here/abort")"; exit 1; }}
        [ "$waited" -ge {seconds} ] && {{ say "not confirmed within {seconds} s"; exit 1; }}
        sleep 1
        waited=$((waited + 1))
    done
    mkdir -p "$lasting" || exit 1
    # The uplink's file comes last: before it is there, a boot brings the old network.
    for file in $files; do
        cp "$volatile/$file" "$lasting/$file.new" && sync "$lasting/$file.new" || exit 1
    done
    for file in $files; do mv -f "$lasting/$file.new" "$lasting/$file" || exit 1; done
    command -v restorecon >/dev/null && restorecon "$lasting"/*
    become {confirmed}
    say "confirmed: $bridge stays"
    for file in $files; do rm -f "$volatile/$file"; done
}}

settle() {{
    [ "$(cat "$here/state")" = {confirmed} ] && exit 0
    become {rolling_back}
    say "restoring the old network"
    for file in $files; do rm -f "$volatile/$file" "$lasting/$file" "$lasting/$file.new"; done
    reload
    ip link delete dev "$bridge" type bridge
    ip link set dev "$uplink" up
    networkctl reconfigure "$uplink"
    waited=0
    until back; do
        if [ "$waited" -ge {return_seconds} ]; then
            say "$uplink still has no addresses: restarting systemd-networkd"
            systemctl restart systemd-networkd.service
            break
        fi
        sleep 1
        waited=$((waited + 1))
    done
    become {rolled_back}
    say "the old network is back"
}}

back() {{
    for address in $addresses; do
        ip -oneline address show dev "$uplink" | grep -qF " $address " || return 1
    done
}}

"$1"
"""


def arm(change: Change, seconds: int) -> None:
    """Start the switch of a change: some seconds later it applies, then it waits ``seconds`` for ``confirm``.

    Raises ConflictError when one is under way on this host, HostError.
    """
    here = _folder(change.bridge)
    if _is_running(change.bridge):
        raise ConflictError(f"another change of {change.bridge} is under way", hint="Run again when it is over")
    os.makedirs(_STATE_ROOT, mode=0o755, exist_ok=True)
    shutil.rmtree(here, ignore_errors=True)
    staged = tempfile.mkdtemp(prefix=f".{change.bridge}-", dir=_STATE_ROOT)
    os.chmod(staged, 0o755)
    os.mkdir(f"{staged}/files")
    for file in change.files:
        _write(f"{staged}/files/{file.name}", file.text)
    _write(f"{staged}/change.json", json.dumps(asdict(change)))
    _write(f"{staged}/state", f"{ARMED}\n")
    _write(f"{staged}/switch.sh", _script(change, here, seconds))
    os.rename(staged, here)
    run(
        "systemd-run",
        "--quiet",
        "--collect",
        f"--unit={_unit(change.bridge)}",
        f"--description=Put {change.uplink} into {change.bridge}, and back unless confirmed",
        # What a killed switch leaves is put back all the same.
        f"--property=ExecStopPost=/bin/sh {here}/switch.sh settle",
        "--property=TimeoutStopSec=120",
        "/bin/sh",
        f"{here}/switch.sh",
        "apply",
    )


def pending(bridge: str) -> Change | None:
    """The change of a bridge that waits for its confirmation now, None when there is none.

    Where an earlier change is just going back, waits until it has.
    """
    if _is_running(bridge) and state(bridge) == ROLLING_BACK:
        _wait_while(bridge, (ROLLING_BACK,))
    if not _is_running(bridge) or state(bridge) not in (ARMED, APPLIED):
        return None
    try:
        with open(f"{_folder(bridge)}/change.json", encoding="utf-8") as stream:
            return _read_change(json.load(stream))
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise HostError(
            f"the change of {bridge} under way cannot be read: {exc}",
            hint="Another version of the collection may have started it. Run again in a few minutes: unless it is "
            "confirmed, it is rolled back automatically",
        ) from exc


def _read_change(said: t.Any) -> Change:
    """A change as another version may have written it: what it says besides is passed over."""
    return Change(
        bridge=said["bridge"],
        uplink=said["uplink"],
        files=tuple(NetworkdFile(file["name"], file["text"]) for file in said["files"]),
        addresses=tuple(said["addresses"]),
        gateways=tuple(said["gateways"]),
    )


def state(bridge: str) -> str | None:
    """How far the last switch of a bridge is since the host booted, None when there was none."""
    text = read_text(f"{_folder(bridge)}/state")
    return None if text is None else text.strip()


def log(bridge: str) -> list[str]:
    """What the last switch of a bridge said, line by line."""
    return (read_text(f"{_folder(bridge)}/log") or "").splitlines()


def wait_until_applied(bridge: str) -> None:
    """Wait until the change is applied, and leave the mark that ``confirm`` asks for.

    The connection that carries this call may be older than the change. The next call's connection cannot be, as it is
    opened after this one had its answer: that it gets through proves that new connections reach the host.
    """
    _wait_while(bridge, (ARMED,))
    if state(bridge) == APPLIED:
        _write(f"{_folder(bridge)}/applied-seen", "")


def confirm(bridge: str) -> None:
    """Tell the switch that the change is good; waits until it has made it last, or has gone back instead.

    Raises HostError when ``wait_until_applied`` was not called before.
    """
    if not os.path.exists(f"{_folder(bridge)}/applied-seen"):
        raise HostError(f"the change of {bridge} has not been seen as applied", hint="Call phase=wait first")
    _write(f"{_folder(bridge)}/confirm", "")
    _wait_while(bridge, (ARMED, APPLIED, ROLLING_BACK))


def abort(bridge: str, reason: str) -> None:
    """Tell the switch to go back now; waits until it has."""
    _write(f"{_folder(bridge)}/abort", f"{reason}\n")
    _wait_while(bridge, (ARMED, APPLIED, ROLLING_BACK))


def _wait_while(bridge: str, states: tuple[str, ...]) -> None:
    """Wait for the switch to leave these states, no longer than going back can take."""
    deadline = time.monotonic() + _RETURN_SECONDS + 10
    while time.monotonic() < deadline and state(bridge) in states:
        time.sleep(0.2)


def _script(change: Change, here: str, seconds: int) -> str:
    return _SCRIPT.format(
        bridge=shlex.quote(change.bridge),
        uplink=shlex.quote(change.uplink),
        files=shlex.quote(" ".join(file.name for file in change.files)),
        addresses=shlex.quote(" ".join(change.addresses)),
        here=shlex.quote(here),
        delay=_DELAY_SECONDS,
        seconds=seconds,
        return_seconds=_RETURN_SECONDS,
        applied=APPLIED,
        confirmed=CONFIRMED,
        rolling_back=ROLLING_BACK,
        rolled_back=ROLLED_BACK,
    )


def _folder(bridge: str) -> str:
    return f"{_STATE_ROOT}/bridge-{bridge}"


def _unit(bridge: str) -> str:
    return f"brine-virt-bridge-{bridge}.service"


def _is_running(bridge: str) -> bool:
    # While its unit goes back it is `deactivating`.
    active_state = run("systemctl", "show", "--property=ActiveState", "--value", _unit(bridge)).strip()
    return active_state in ("active", "activating", "deactivating")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
