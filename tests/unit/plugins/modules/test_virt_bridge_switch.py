# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module's phases on values: what it reads, what it would do, what it starts, and when it confirms."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._network import confirmation, neighbours
from ansible_collections.brine.virt.plugins.module_utils._network.managers import choice, ifupdown
from ansible_collections.brine.virt.plugins.module_utils._network.observe import Link, Network, Route
from ansible_collections.brine.virt.plugins.module_utils._network.switch import control
from ansible_collections.brine.virt.plugins.module_utils._network.switch.guarded import GuardedChange
from ansible_collections.brine.virt.plugins.modules import virt_bridge_switch

Call = t.Callable[..., dict[str, t.Any]]
ETH0 = Link("eth0", "52:54:00:11:22:33", "", "ether", None, False, ("192.0.2.10/24",), 1500)
BRIDGE = Link("br0", "52:54:00:11:22:33", "bridge", "ether", None, False, ("192.0.2.10/24",), 1500)
PORT = Link("eth0", "52:54:00:11:22:33", "", "ether", "br0", False, (), 1500)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the module's main() with arguments and give back its result."""

    def run(**arguments: t.Any) -> dict[str, t.Any]:
        with patch_module_args(arguments), pytest.raises(SystemExit):
            virt_bridge_switch.main()
        result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        return result

    return run


class Host:
    """A host with ifupdown, and a switch that is remembered and not started."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.network = Network({"eth0": ETH0}, (Route("eth0", "192.0.2.1"),))
        self.armed: list[GuardedChange] = []
        self.told: list[str] = []
        self.token = "first"
        self.neighbours: dict[str, str] = {}
        self.rules: dict[str, list[str]] = {}

    def holder_of(self, address: str, _device: str) -> str | None:
        return self.neighbours.get(address)

    def pending(self, name: str) -> control.PendingChange | None:
        assert name == "bridge-br0"
        if not self.armed:
            return None
        change = self.armed[-1]
        files = tuple((file.lasting, file.text) for file in change.files)
        return control.PendingChange(change.subject, files, self.token, 150, 380)

    def arm(self, change: GuardedChange, _seconds: int) -> control.PendingChange | None:
        self.armed.append(change)
        return self.pending(change.name)

    def take_over(self, name: str) -> control.PendingChange | None:
        self.token = "second"
        return self.pending(name)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    (tmp_path / "interfaces.d").mkdir()
    text = "source interfaces.d/*\nauto eth0\niface eth0 inet static\n  address 192.0.2.10/24\n"
    (tmp_path / "interfaces").write_text(text)
    for name, value in (("MAIN", "interfaces"), ("LASTING", "interfaces.d"), ("TRIAL", "run")):
        monkeypatch.setattr(ifupdown, name, f"{tmp_path}/{value}")
    monkeypatch.setattr(ifupdown.IfupdownManager, "runs", lambda _self: True)
    monkeypatch.setattr(choice, "MANAGERS", (ifupdown.IfupdownManager(),))
    host = Host(tmp_path)
    monkeypatch.setattr(virt_bridge_switch, "observe_network", lambda: host.network)
    monkeypatch.setattr(confirmation, "observe_network", lambda: host.network)
    monkeypatch.setattr(confirmation, "_COMPLETE_SECONDS", 0)
    # No probes from this machine.
    monkeypatch.setattr(neighbours, "holder_of", host.holder_of)
    monkeypatch.setattr(virt_bridge_switch, "names_uplink", lambda link: host.rules.get(link, []))
    monkeypatch.setattr(control, "arm", host.arm)
    monkeypatch.setattr(control, "pending", host.pending)
    monkeypatch.setattr(control, "take_over", host.take_over)
    monkeypatch.setattr(control, "check_token", lambda _name, token: host.told.append(token))
    monkeypatch.setattr(control, "state", lambda _name: control.CONFIRMED)
    monkeypatch.setattr(control, "confirm", lambda _name, _token: host.told.append("confirm"))
    monkeypatch.setattr(control, "abort", lambda _name, _token, why: host.told.append(why))
    return host


def test_all_mistakes_are_found_before_anything_is_looked_at(call: Call) -> None:
    bridges = [{"name": "br0", "mtu": 1}, {"name": "br1", "adresses": []}, "br2"]
    result = call(bridges=bridges, place="virt_bridge_bridges", phase="check")
    assert result["failed"]
    assert [line.split(":")[0] for line in result["msg"].splitlines()] == [
        "virt_bridge_bridges[0].mtu", "virt_bridge_bridges[1]", "virt_bridge_bridges[2]"
    ]  # fmt: skip
    fine = call(bridges=[{"name": "br0"}], phase="check")
    assert (fine["changed"], fine["state"]) == (False, "checked")


def test_check_mode_shows_the_files_and_starts_nothing(call: Call, host: Host) -> None:
    result = call(name="br0", _ansible_check_mode=True)
    assert (result["changed"], result["state"], result["uplink"]) == (True, "absent", "eth0")
    (diff,) = result["diff"]
    assert diff["after_header"] == f"{host.directory}/interfaces.d/brine-br0"
    assert (diff["before"], "iface br0 inet static" in diff["after"]) == ("", True)
    assert host.armed == []
    # And the real run says the same.
    real = call(name="br0")
    assert (real["state"], real["diff"]) == ("armed", result["diff"])
    assert len(host.armed) == 1


@pytest.mark.parametrize("link", ["bond0", "lan"])
def test_check_mode_waits_for_no_interface_that_the_same_run_makes(call: Call, host: Host, link: str) -> None:
    lan = {"name": "lan", "uplink": {"bond": ["eth0"]}}
    vlan = {"name": "br0", "uplink": {"vlan": 20, "link": link}, "addresses": ["198.51.100.5/24"]}
    result = call(name="br0", bridges=[lan, vlan], _ansible_check_mode=True)
    assert (result["changed"], result["state"], result["diff"]) == (True, "absent", [])
    assert (result["uplink"], result["addresses"]) == (f"{link}.20", ["198.51.100.5/24"])
    # Where nobody makes it, or only later, it fails as the run would.
    for bridges in ([vlan], [vlan, lan]):
        failed = call(name="br0", bridges=bridges, _ansible_check_mode=True)
        assert f"the uplink {link} does not exist" in failed["msg"]
    assert "does not exist" in call(name="br0", bridges=[lan, vlan])["msg"]


def test_the_bridge_of_the_list_is_the_one_that_is_made(call: Call, host: Host) -> None:
    bridges = [{"name": "br1", "uplink": False}, {"name": "br0", "addresses": ["192.0.2.77/24"]}]
    assert call(name="br0", bridges=bridges)["addresses"] == ["192.0.2.77/24"]
    assert call(name="br9", bridges=bridges, phase="nonsense")["failed"]


@pytest.mark.parametrize("check_mode", [True, False])
def test_rules_that_name_the_uplink_are_named(
    call: Call, host: Host, check_mode: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    # A process gives each warning once.
    monkeypatch.setattr(virt_bridge_switch.AnsibleModule, "warn", lambda _self, text: said.append(text))
    host.rules = {"eth0": ["the chain in of the table inet f"]}
    # A bridge that is there needs no warning.
    network, host.network = host.network, Network({"br0": BRIDGE, "eth0": PORT}, (Route("br0", "192.0.2.1"),))
    call(name="br0", bridges=[{"name": "br0"}])
    assert said == []
    host.network = network
    call(name="br0", _ansible_check_mode=check_mode)
    (warning,) = said
    assert "eth0, and what arrives over it will come from br0: the chain in of the table inet f. Name br0" in warning


@pytest.mark.parametrize("seconds", [-1, 0, 3601, 99999999])
def test_a_host_is_not_cut_off_for_hours(call: Call, host: Host, seconds: int) -> None:
    result = call(name="br0", confirm_seconds=seconds)
    assert result["msg"].startswith(f"confirm_seconds: {seconds} is not allowed: a host that the change cuts off is as")
    assert host.armed == []
    assert call(name="br0", confirm_seconds=3600)["state"] == "armed"


@pytest.mark.parametrize("check_mode", [True, False])
def test_an_address_of_another_host_is_refused(call: Call, host: Host, check_mode: bool) -> None:
    host.neighbours = {"192.0.2.77": "52:54:00:00:00:02"}
    bridges = [{"name": "br0", "addresses": ["192.0.2.10/24", "192.0.2.77/24"]}]
    result = call(name="br0", bridges=bridges, _ansible_check_mode=check_mode)
    assert result["msg"].startswith("the address 192.0.2.77 of br0 is taken: 52:54:00:00:00:02 answers at it on eth0.")
    assert host.armed == []


def test_a_bridge_is_confirmed_when_it_has_all(call: Call, host: Host) -> None:
    call(name="br0")
    complaint = "the change bridge-br0 is applied, but the host has not got the interface br0"
    with pytest.raises(HostError, match=complaint):
        confirmation.confirm("bridge-br0", "first")
    assert host.told == ["first", complaint]
    host.told.clear()
    host.network = Network({"br0": BRIDGE, "eth0": PORT}, (Route("br0", "192.0.2.1"),))
    assert confirmation.confirm("bridge-br0", "first")
    assert host.told == ["first", "confirm"]


def test_what_is_needed_to_confirm_it_is_returned(call: Call, host: Host) -> None:
    result = call(name="br0")
    words = ("state", "change", "token", "apply_seconds", "settle_seconds")
    assert [result[word] for word in words] == ["armed", "bridge-br0", "first", 150, 380]


def test_a_change_that_a_killed_run_has_left_is_taken_over(call: Call, host: Host) -> None:
    call(name="br0")
    checked = call(name="br0", _ansible_check_mode=True)
    assert (checked["changed"], checked["state"], host.token) == (True, "absent", "first")
    again = call(name="br0")
    assert (again["changed"], again["state"], again["token"], len(host.armed)) == (True, "armed", "second", 1)


@pytest.mark.parametrize("words", [{"uplink": "eth1"}, {"mtu": 9000}, {"addresses": ["192.0.2.77/24"]}])
def test_a_change_of_another_run_for_something_else_is_left_alone(
    call: Call, host: Host, words: dict[str, t.Any]
) -> None:
    call(name="br0")
    refused = call(name="br0", bridges=[{"name": "br0", **words}])
    assert "a change bridge-br0 that another run has begun, and that is not what this one asks for" in refused["msg"]
    assert "in 530 s at most; systemctl stop brine-virt-bridge-br0 undoes it at once" in refused["msg"]
    assert (host.token, len(host.armed)) == ("first", 1)


@pytest.mark.parametrize("connection", ["local", "ansible.builtin.local", "community.docker.docker"])
@pytest.mark.parametrize("check", [False, True])
def test_a_connection_that_proves_nothing_is_refused(call: Call, host: Host, connection: str, check: bool) -> None:
    refused = call(name="br0", connection=connection, _ansible_check_mode=check)
    assert (
        f"Ansible reaches this host by the connection {connection}, which works without the network" in refused["msg"]
    )
    assert host.armed == []
    # Where there is nothing to do, nothing needs to be proved.
    host.network = Network({"br0": BRIDGE, "eth0": PORT}, (Route("br0", "192.0.2.1"),))
    assert call(name="br0", bridges=[{"name": "br0"}], connection=connection)["state"] == "present"


@pytest.mark.parametrize("connection", ["ssh", "ansible.builtin.ssh", "smart", "ansible.netcommon.libssh"])
def test_a_connection_over_the_network_will_do(call: Call, host: Host, connection: str) -> None:
    assert call(name="br0", connection=connection)["state"] == "armed"


def test_a_bridge_that_is_as_it_should_be(call: Call, host: Host) -> None:
    host.network = Network({"br0": BRIDGE, "eth0": PORT}, (Route("br0", "192.0.2.1"),))
    result = call(name="br0", bridges=[{"name": "br0", "uplink": "eth0"}])
    assert (result["changed"], result["state"], result["ports"]) == (False, "present", ["eth0"])


def test_a_name_is_needed(call: Call) -> None:
    assert "name" in call(phase="prepare")["msg"]
