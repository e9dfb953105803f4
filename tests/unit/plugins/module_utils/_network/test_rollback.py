# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of a host's network that nobody confirms goes back: the script itself, run by a shell in a folder.

What it asks of the host (networkctl, ip, systemctl) are programs that note what they were called with.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._network import rollback
from ansible_collections.brine.virt.plugins.module_utils._network.change import Change
from ansible_collections.brine.virt.plugins.module_utils._network.networkd import NetworkdFile

CHANGE = Change(
    bridge="br0",
    uplink="eth0",
    files=(NetworkdFile("10-br0.netdev", "[NetDev]\n"), NetworkdFile("10-eth0.network", "[Match]\nName=eth0\n")),
    addresses=("192.0.2.10/24",),
    gateways=("192.0.2.1",),
)
NAMES = ["10-br0.netdev", "10-eth0.network"]
PROGRAM = (
    '#!/bin/sh\necho "$(basename "$0") $*" >> {told}\n[ "$2" != address ] || echo "2: eth0 inet 192.0.2.10/24 brd x"\n'
)


class Systemd:
    """Runs the switch as its transient unit would: `apply`, and `settle` whatever becomes of that."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.unit: subprocess.Popen[bytes] | None = None
        self.worker: subprocess.Popen[bytes] | None = None
        self.told = directory / "told"

    def run(self, *command: str) -> str:
        if command[0] == "systemctl":
            return "active\n" if self.unit is not None and self.unit.poll() is None else "inactive\n"
        assert command[0] == "systemd-run"
        shell, script, word = command[-3:]
        (stop_post,) = (words for words in command if words.startswith("--property=ExecStopPost="))
        assert (shell, word) == ("/bin/sh", "apply")
        whole = f"{shell} {script} apply & echo $! > {self.directory}/pid; wait $!; {stop_post.split('=', 2)[2]}"
        path = f"{self.directory}/bin:{os.environ['PATH']}"
        nowhere = subprocess.DEVNULL
        self.unit = subprocess.Popen(
            ["/bin/sh", "-c", whole],
            env={**os.environ, "PATH": path},
            stdout=nowhere,
            stderr=nowhere,
            start_new_session=True,
        )
        end = time.monotonic() + 300
        while not (self.directory / "pid").exists() or not (self.directory / "pid").read_text():
            assert time.monotonic() < end
            time.sleep(0.01)
        return ""

    def kill(self) -> None:
        os.kill(int((self.directory / "pid").read_text()), signal.SIGKILL)

    def files(self, where: str) -> list[str]:
        folder = self.directory / where
        return sorted(os.listdir(folder)) if folder.exists() else []

    def wait(self) -> None:
        assert self.unit is not None
        self.unit.wait(timeout=300)


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Systemd]:
    """A host whose folders of systemd-networkd are in a directory."""
    (tmp_path / "bin").mkdir()
    for name in ("networkctl", "systemctl", "ip", "restorecon"):
        (tmp_path / "bin" / name).write_text(PROGRAM.format(told=tmp_path / "told"))
        (tmp_path / "bin" / name).chmod(0o700)
    script = rollback._SCRIPT
    for place, name in (("/run/systemd/network", "volatile"), ("/etc/systemd/network", "lasting")):
        assert place in script
        script = script.replace(place, str(tmp_path / name))
    host = Systemd(tmp_path)
    monkeypatch.setattr(rollback, "_SCRIPT", script)
    monkeypatch.setattr(rollback, "_STATE_ROOT", str(tmp_path / "state"))
    monkeypatch.setattr(rollback, "_DELAY_SECONDS", 0)
    monkeypatch.setattr(rollback, "run", host.run)
    yield host
    if host.unit is not None and host.unit.poll() is None:
        os.killpg(host.unit.pid, signal.SIGKILL)
        host.unit.wait(timeout=300)


def is_put_back(host: Systemd) -> bool:
    told = host.told.read_text()
    return (
        host.files("volatile") == host.files("lasting") == []
        and "ip link delete dev br0 type bridge\n" in told
        and "networkctl reconfigure eth0\n" in told
    )


def test_what_is_confirmed_lasts(systemd: Systemd) -> None:
    rollback.arm(CHANGE, 30)
    rollback.wait_until_applied("br0")
    # Until then a boot would bring the old network.
    assert (systemd.files("volatile"), systemd.files("lasting")) == (NAMES, [])
    assert rollback.pending("br0") == CHANGE
    rollback.confirm("br0")
    systemd.wait()
    assert rollback.state("br0") == rollback.CONFIRMED
    assert (systemd.files("volatile"), systemd.files("lasting")) == ([], NAMES)
    assert (systemd.directory / "lasting" / NAMES[1]).read_text() == "[Match]\nName=eth0\n"
    assert "link delete" not in systemd.told.read_text()
    assert rollback.pending("br0") is None


def test_what_nobody_confirms_goes_back(systemd: Systemd) -> None:
    rollback.arm(CHANGE, 1)
    systemd.wait()
    assert rollback.state("br0") == rollback.ROLLED_BACK
    assert is_put_back(systemd)
    assert any(line.endswith("not confirmed within 1 s") for line in rollback.log("br0"))
    assert rollback.pending("br0") is None


def test_it_goes_back_when_told_to(systemd: Systemd) -> None:
    rollback.arm(CHANGE, 30)
    rollback.wait_until_applied("br0")
    rollback.abort("br0", "the gateway does not answer")
    assert rollback.state("br0") == rollback.ROLLED_BACK
    assert is_put_back(systemd)
    assert any(line.endswith("told to roll back: the gateway does not answer") for line in rollback.log("br0"))


def test_a_switch_that_is_killed_is_put_back_all_the_same(systemd: Systemd) -> None:
    rollback.arm(CHANGE, 30)
    rollback.wait_until_applied("br0")
    systemd.kill()
    systemd.wait()
    assert rollback.state("br0") == rollback.ROLLED_BACK
    assert is_put_back(systemd)


def test_a_reload_that_fails_goes_back(systemd: Systemd) -> None:
    for name in ("networkctl", "systemctl"):
        (systemd.directory / "bin" / name).write_text(
            PROGRAM.format(told=systemd.told) + '[ "$1" != reload ] && [ "$1" != restart ]\n'
        )
    rollback.arm(CHANGE, 30)
    systemd.wait()
    assert rollback.state("br0") == rollback.ROLLED_BACK
    assert is_put_back(systemd)


def test_it_is_not_confirmed_by_a_call_that_may_be_older_than_the_change(systemd: Systemd) -> None:
    rollback.arm(CHANGE, 30)
    with pytest.raises(HostError, match="has not been seen as applied"):
        rollback.confirm("br0")


def test_one_change_of_a_bridge_at_a_time(systemd: Systemd) -> None:
    rollback.arm(CHANGE, 30)
    with pytest.raises(ConflictError, match="another change of br0 is under way"):
        rollback.arm(CHANGE, 30)


def test_a_host_that_has_had_no_change(systemd: Systemd) -> None:
    assert (rollback.state("br0"), rollback.log("br0"), rollback.pending("br0")) == (None, [], None)
