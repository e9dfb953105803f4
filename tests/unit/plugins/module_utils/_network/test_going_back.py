# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each network manager's change leaves on disk: nothing before it is confirmed, and nothing when it is not.

The switch's script runs as it is; the programs of the host only note how they are called.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._network import change as planning
from ansible_collections.brine.virt.plugins.module_utils._network.managers import (
    choice,
    ifupdown,
    netplan,
    networkd,
    networkmanager,
)
from ansible_collections.brine.virt.plugins.module_utils._network.managers.manager import Manager
from ansible_collections.brine.virt.plugins.module_utils._network.managers.networkd_text import NetworkdSource
from ansible_collections.brine.virt.plugins.module_utils._network.observe import BridgeState, Network, Route
from ansible_collections.brine.virt.plugins.module_utils._network.spec import read_bridge
from ansible_collections.brine.virt.plugins.module_utils._network.switch import control
from ansible_collections.brine.virt.plugins.module_utils._network.switch.guarded import GuardedChange
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.managers.hosts import link
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.switch.unit_host import UnitHost

pytestmark = pytest.mark.medium

PROGRAMS = (
    *("networkctl", "systemctl", "systemd-run", "nmcli", "netplan", "ifup", "ifdown", "ip", "bridge", "restorecon"),
)
MANAGERS: dict[str, t.Any] = {
    "networkd": networkd,
    "networkmanager": networkmanager,
    "ifupdown": ifupdown,
    "netplan": netplan,
}
BEFORE = {
    "networkd": {"10-eth0.network": "[Match]\nName=eth0\n[Network]\nAddress=192.0.2.10/24\n"},
    "networkmanager": {"eth0.nmconnection": "[connection]\nuuid=u\n[ipv4]\nmethod=manual\naddress1=192.0.2.10/24\n"},
    "ifupdown": {"cards": "iface eth0 inet static\n  address 192.0.2.10/24\n"},
    "netplan": {"50-x.yaml": "network: {ethernets: {eth0: {addresses: [192.0.2.10/24]}}}\n"},
}
NETWORK = Network({"eth0": link("eth0", addresses=("192.0.2.10/24",))}, (Route("eth0", "192.0.2.1"),))
BRIDGED = Network(
    {
        "br0": link("br0", kind="bridge", addresses=("192.0.2.10/24",), bridge=BridgeState()),
        "eth0": link("eth0", master="br0"),
    },
    (Route("br0", "192.0.2.1"),),
)


@pytest.fixture(params=MANAGERS)
def name(request: pytest.FixtureRequest) -> str:
    """A network manager."""
    return str(request.param)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[UnitHost]:
    """A host of this manager; its lasting files are in `lasting`, those of a trial in `trial`."""
    module = MANAGERS[name]
    monkeypatch.setattr(module, "LASTING", f"{tmp_path}/lasting")
    monkeypatch.setattr(module, "TRIAL", f"{tmp_path}/trial")
    for folder in ("lasting", "trial"):
        (tmp_path / folder).mkdir()
    for file, text in BEFORE[name].items():
        (tmp_path / "lasting" / file).write_text(text)
    source = NetworkdSource(((f"{tmp_path}/lasting/10-eth0.network", BEFORE["networkd"]["10-eth0.network"]),))
    known = networkd.Networkd(source, (), None, None)
    monkeypatch.setattr(networkd, "FOLDERS", (f"{tmp_path}/lasting", f"{tmp_path}/trial"))
    monkeypatch.setattr(networkd, "observe_networkd", lambda _link: known)
    monkeypatch.setattr(networkd, "network_file", lambda _link: None)
    profile = f"{tmp_path}/lasting/eth0.nmconnection"
    monkeypatch.setattr(networkmanager, "run", lambda *command: f"u:{profile}\n" if command[-1] == "show" else "u\n")
    (tmp_path / "interfaces").write_text("source lasting/*\n")
    monkeypatch.setattr(ifupdown, "MAIN", f"{tmp_path}/interfaces")
    monkeypatch.setattr(netplan, "VENDOR", f"{tmp_path}/vendor")
    manager: Manager = {manager.name: manager for manager in choice.MANAGERS}[name]
    monkeypatch.setattr(type(manager), "runs", lambda _self: True)
    monkeypatch.setattr(choice, "MANAGERS", (manager,))
    host = UnitHost(tmp_path)
    host.programs(*PROGRAMS)
    # Everything is back at once: whichever interface is asked for, it has the address; a bridge goes when told to.
    (tmp_path / "bin/ip").write_text(
        f"""#!/bin/sh
echo "ip $*" >>{tmp_path}/told
case $* in
"link show dev br0") [ ! -e {tmp_path}/deleted ] ;;
"link delete dev br0") : >{tmp_path}/deleted ;;
*" route show "*) for device in eth0 br0; do echo "default via 192.0.2.1 dev $device "; done ;;
*" show "*) echo "2: eth0 inet 192.0.2.10/24 brd x master br0 state UP" ;;
esac
"""
    )
    for word, value in (("_STATE_ROOT", f"{tmp_path}/state"), ("_DELAY_SECONDS", 0), ("run", host.run)):
        monkeypatch.setattr(control, word, value)
    yield host
    host.end()


def plan(name: str, network: Network, **words: t.Any) -> GuardedChange | None:
    return planning.plan_bridge(network, read_bridge({"name": "br0", "manager": name, **words}, ""))


def confirm(change: GuardedChange | None) -> None:
    assert change is not None
    control.arm(change, 60)
    armed = control.read(change.name)
    control.wait_until_applied(change.name, armed.token)
    control.confirm(change.name, armed.token)
    assert control.state(change.name) == control.CONFIRMED


def test_a_new_bridge(host: UnitHost, name: str) -> None:
    change = plan(name, NETWORK)
    assert change is not None
    control.arm(change, 60)
    control.wait_until_applied("bridge-br0", control.read("bridge-br0").token)
    # A boot would bring the old network: what lasts is as it was.
    assert host.texts("lasting") == BEFORE[name]
    assert host.texts("trial") != {}
    host.kill()
    host.wait()
    assert control.state("bridge-br0") == control.ROLLED_BACK
    assert (host.texts("lasting"), host.texts("trial")) == (BEFORE[name], {})
    assert "ip link delete dev br0" in (host.directory / "told").read_text()
    (host.directory / "told").unlink()
    # And once more, confirmed.
    confirm(change)
    assert host.texts("trial") == {}
    assert "link delete" not in (host.directory / "told").read_text()
    lasting = {Path(file.lasting).name: file.text for file in change.files}
    assert host.texts("lasting") == {**BEFORE[name], **lasting}
    # What is there now is what was wanted.
    assert plan(name, BRIDGED) is None


def test_a_change_of_a_bridge(host: UnitHost, name: str) -> None:
    confirm(plan(name, NETWORK, mtu=1500))
    made = host.texts("lasting")
    change = plan(name, BRIDGED, mtu=9000, stp=True)
    assert change is not None
    assert change.files
    control.arm(change, 60)
    control.wait_until_applied("bridge-br0", control.read("bridge-br0").token)
    assert host.texts("lasting") == made
    control.abort("bridge-br0", control.read("bridge-br0").token, "no answer")
    assert control.state("bridge-br0") == control.ROLLED_BACK
    assert (host.texts("lasting"), host.texts("trial")) == (made, {})
    told = (host.directory / "told").read_text()
    # Machines on it keep it.
    assert "link delete" not in told
    assert "ifdown --force --interfaces" not in told
    confirm(change)
    assert host.texts("lasting") != made


def test_an_edit_since_the_plan_is_kept(host: UnitHost, name: str) -> None:
    confirm(plan(name, NETWORK, mtu=1500))
    change = plan(name, BRIDGED, mtu=9000, stp=True)
    assert change is not None
    path = Path(change.files[-1].lasting)
    path.write_text(f"{path.read_text()}# by hand\n")
    edited = host.texts("lasting")
    with pytest.raises(ConflictError, match="was changed just now by somebody else"):
        control.arm(change, 60)
    assert host.texts("lasting") == edited
