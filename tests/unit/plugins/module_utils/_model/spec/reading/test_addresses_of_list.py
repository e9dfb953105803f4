# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses that two machines of a list have, wherever the machines are."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machines

MAC = "52:54:00:00:00:01"


def machine(name: str, **nic: t.Any) -> dict[str, t.Any]:
    return {"name": name, "vcpus": 1, "memory": 512, "nics": [{"name": "eth0", **nic}]}


def read(*machines: dict[str, t.Any], there: t.Container[str] = (), **options: t.Any) -> int:
    def find(name: str) -> Existing | None:
        return Existing() if name in there else None

    return len(read_machines(list(machines), where="vms", existing=find, **options))


@pytest.mark.parametrize("there", [(), ("a",), ("b",)])
def test_one_mac_for_two_machines_is_refused(there: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        read(machine("a", mac=MAC), machine("b", mac=MAC.upper(), bridge="br1"), there=there)
    assert str(caught.value) == (
        f"vms[1].nics[0].mac: the MAC address {MAC} belongs to machine a. Give another one with mac"
    )


@pytest.mark.parametrize("there", [(), ("b",)])
def test_one_address_on_one_bridge_is_refused(there: tuple[str, ...]) -> None:
    first, second = {"addresses": ["192.0.2.9/24", "2001:db8::9/64"]}, {"addresses": ["2001:DB8:0::9/48"]}
    with pytest.raises(InputError) as caught:
        read(machine("a", **first), machine("b", **second), there=there)
    assert str(caught.value) == (
        "vms[1].nics[0].addresses: the address 2001:db8::9 belongs to machine a on bridge br0 too. Give another one"
    )


def test_a_profile_gives_no_address_to_two_machines() -> None:
    bare = [{"name": name, "vcpus": 1, "memory": 512} for name in ("a", "b")]
    for option, value in (("mac", MAC), ("addresses", "192.0.2.9/24")):
        profiles = {"default": {"eth0": {option: value}}}
        with pytest.raises(InputError, match=rf"^virt_nic_profiles\.default\.eth0\.{option}: .* belongs to machine a"):
            read(*bare, nic_profiles=profiles, prefix="virt_")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # Other networks: of libvirt each hypervisor has its own, and a VLAN is one too.
        ({"network": "lan"}, {"network": "lan"}),
        ({"bridge": "br0"}, {"bridge": "br1"}),
        ({"bridge": "br0", "vlan": 5}, {"bridge": "br0"}),
    ],
)
def test_one_address_in_two_networks_is_well(first: dict[str, t.Any], second: dict[str, t.Any]) -> None:
    address = {"addresses": "192.0.2.9/24"}
    assert read(machine("a", **address, **first), machine("b", **address, **second)) == 2


def test_what_is_there_and_what_goes_is_left_alone() -> None:
    same = {"mac": MAC, "addresses": "192.0.2.9/24"}
    assert read(machine("a", **same), machine("b", **same), there=("a", "b")) == 2
    assert read({"name": "a", "state": "absent"}, machine("b", **same), there=("a",)) == 2
    assert read({**machine("a", **same), "state": "absent"}, machine("b", **same), there=("a",)) == 2
    assert read(machine("a", **same, state="absent"), machine("b", **same), there=("a",)) == 2
