# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec: defaults, short words, and everything that is refused."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import Disk, Machine, Nic, Seed
from ansible_collections.brine.virt.plugins.module_utils._model.spec.nic import stable_mac
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine, read_machines

MINIMAL = {"name": "web_1", "vcpus": 1, "memory": 512}


def spec(**more: t.Any) -> dict[str, t.Any]:
    return {**MINIMAL, **more}


def test_the_shortest_spec_has_the_defaults() -> None:
    assert read_machine(MINIMAL) == Machine(
        name="web_1",
        vcpus=1,
        memory_mib=512,
        image=None,
        disks=(Disk(name="system", size_mib=8192, model="virtio", pool="default"),),
        nics=(Nic(name="eth0", type="bridge", source="br0", model="virtio", mac=stable_mac("web_1", "eth0")),),
        seed=Seed(hostname="web-1", user="ansible"),
        hardware={"vcpus": {"maximum": 1, "current": 1}, "memory": {"maximum": 512, "current": 512}},
    )


def test_everything_that_can_be_said() -> None:
    given = spec(
        vcpus="2",
        memory="2GiB",
        image="debian",
        disk_profile="big",
        disks=[{"name": "data", "pool": "ssd", "format": "raw"}],
        nic_profile="none",
        nics={
            "eth0": {"network": "lan", "addresses": "192.0.2.2/24", "gateway": "192.0.2.1", "mac": "52:54:00:00:00:0A"}
        },
        seed={"user": "admin", "run_commands": ["true", ["echo", 1]]},
        graphics="vnc",
        hypervisor="hv1",
        start="no",
        autostart=True,
        tags=["db", "x"],
        variables={"role": "db"},
        title="A <machine>",
        firmware="efi",
    )
    before = copy.deepcopy(given)
    machine = read_machine(
        given,
        disk_profiles={"big": {"system": {"size": "20G"}, "data": {"size": "1T"}}},
        seed_defaults={"user": "root", "packages": ["vim"]},
    )
    assert given == before
    assert machine.memory_mib == 2048
    assert machine.disks == (
        Disk(name="system", size_mib=20480, image="debian"),
        Disk(name="data", size_mib=1024 * 1024, pool="ssd", format="raw"),
    )
    assert machine.nics == (
        Nic(
            name="eth0",
            type="network",
            source="lan",
            mac="52:54:00:00:00:0a",
            addresses=("192.0.2.2/24",),
            gateway=("192.0.2.1",),
        ),
    )
    assert machine.seed == Seed(hostname="web-1", user="admin", packages=("vim",), run_commands=("true", ["echo", "1"]))
    assert machine.hardware["graphics"] == {"type": "vnc"}
    assert (machine.start, machine.autostart, machine.tags) == (False, True, ("db", "x"))


@pytest.mark.parametrize(
    ("disks", "images"),
    [
        ([{"name": "system"}, {"name": "data", "size": "1MiB"}], ["debian", None]),
        ([{"name": "system", "image": "debian"}], ["debian"]),
        (
            [{"name": "old", "state": "absent"}, {"name": "cd", "device": "cdrom"}, {"name": "system"}],
            [None, None, "debian"],
        ),
        ([{"name": "system"}, {"name": "data", "image": "data-1"}], ["debian", "data-1"]),
    ],
)
def test_the_machines_image_is_for_its_first_disk(disks: t.Any, images: list[str | None]) -> None:
    machine = read_machine(spec(image="debian", disk_profile="none", disks=disks))
    assert [disk.image for disk in machine.disks] == images
    assert [disk.size_mib for disk in machine.disks if disk.image] == [None] * sum(map(bool, images))


@pytest.mark.parametrize(
    ("options", "type_", "source"),
    [
        ({}, "bridge", "br0"),
        ({"bridge": "br1"}, "bridge", "br1"),
        ({"network": "lan"}, "network", "lan"),
        ({"type": "network", "source": "lan"}, "network", "lan"),
        ({"source": "br2"}, "bridge", "br2"),
    ],
)
def test_what_a_nic_is_on(options: dict[str, str], type_: str, source: str) -> None:
    nic = read_machine(spec(nic_profile="none", nics=[{"name": "eth0", **options}])).nics[0]
    assert (nic.type, nic.source) == (type_, source)


def test_a_mac_address_is_the_same_for_the_same_names_and_else_another() -> None:
    assert stable_mac("web1", "eth0") == stable_mac("web1", "eth0")
    assert len({stable_mac(m, n) for m in ("web1", "web2") for n in ("eth0", "eth1")}) == 4
    assert stable_mac("web1", "eth0").startswith("52:54:00:")
    assert read_machine(spec(nics={"eth0": {"mac": "52:54:00:11:22:33"}})).nics[0].mac == "52:54:00:11:22:33"


REFUSED: list[tuple[dict[str, t.Any], str]] = [
    ({"name": None}, "vms[1]: name is missing"),
    ({"vcpus": None}, "vms[1]: vcpus is missing"),
    ({"memory": None}, "vms[1]: memory is missing. A new machine needs name, vcpus and memory"),
    ({"memroy": 1}, "vms[1]: unknown option 'memroy'. Did you mean memory?"),
    ({"name": "a/b"}, "vms[1].name: 'a/b' is not a name"),
    ({"vcpus": 0}, "vms[1].vcpus: 0 is not allowed"),
    ({"memory": "lots"}, "vms[1].memory: 'lots' is not a size"),
    ({"disk_profile": "no"}, "vms[1].disk_profile: unknown disk profile 'no'"),
    ({"nic_profile": "no"}, "vms[1].nic_profile: unknown nic profile 'no'"),
    ({"disks": [{"name": "system", "size": "8X"}]}, "vms[1].disks[0].size: '8X' is not a size"),
    ({"disks": {"system": {"sise": 1}}}, "vms[1].disks.system: unknown option 'sise'. Did you mean size?"),
    ({"disks": [{"name": "new"}]}, "vms[1].disks[0]: disk 'new' has neither a size nor an image"),
    ({"disks": [{"name": "system", "format": "vmdk"}]}, "vms[1].disks[0].format: 'vmdk' is not a choice"),
    (
        {"image": "debian", "enable_qcow": True, "disks": [{"name": "system", "format": "raw"}]},
        "vms[1].disks[0].format: a raw disk cannot be an overlay on an image, as vms[1].enable_qcow says",
    ),
    ({"nics": [{"name": "eth0", "model": "ne2k"}]}, "vms[1].nics[0].model: 'ne2k' is not a choice"),
    (
        {"nics": [{"name": "eth1", "bridge": "a", "network": "b"}]},
        "vms[1].nics[0]: it is on a bridge and on a network at once",
    ),
    (
        {"nics": [{"name": "eth1", "bridge": "a", "type": "network"}]},
        "vms[1].nics[0]: it is on a bridge and on a network at once",
    ),
    ({"nics": [{"name": "eth1", "type": ["network"]}]}, "vms[1].nics[0].type: a list is not a choice"),
    ({"nics": [{"name": "eth1", "type": "network"}]}, "vms[1].nics[0]: the network has no name"),
    ({"nics": [{"name": "eth0", "addresses": ["192.0.2.1"]}]}, "vms[1].nics[0].addresses[0]: '192.0.2.1' is not an"),
    ({"seed": {"usr": "x"}}, "vms[1].seed: unknown option 'usr'. Did you mean user?"),
    ({"seed": {"run_commands": "reboot"}}, "vms[1].seed.run_commands: 'reboot' is not a list"),
    ({"seed": {"run_commands": [{"a": 1}]}}, "vms[1].seed.run_commands[0]: a mapping is not a string"),
    ({"graphics": {"type": "vnc", "listen": "everywhere"}}, "vms[1].graphics.listen: 'everywhere' is not an address"),
    ({"graphics": "sdl"}, "vms[1].graphics.type: 'sdl' is not a choice"),
    # libvirt keeps it, and reads it as none: each run would write it again.
    ({"disks": [{"name": "system", "serial": "   "}]}, "vms[1].disks[0].serial: '   ' is not a serial number"),
    ({"boot": {"kernel": "/k", "cmdline": ""}}, "vms[1].boot.cmdline: it is empty. Leave it out"),
    ({"title": "a\x00"}, "vms[1].title: the text has a control character"),
    ({"tags": ["a b"]}, "vms[1].tags[0]: 'a b' is not a name"),
    ({"name": "first"}, "vms[1].name: the name 'first' is taken by vms[0] already"),
]


@pytest.mark.parametrize(("more", "text"), REFUSED)
def test_what_is_wrong_is_refused_with_its_place(more: dict[str, t.Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_machines([spec(name="first"), spec(**more)], where="vms")
    assert str(caught.value).startswith(text)


def test_all_mistakes_of_a_list_are_named_at_once_each_once() -> None:
    profiles = {"big": {"system": {"size": "x"}}}
    specs = [
        spec(name="a", vcpu=1, memroy=2, seed={"usr": "x"}),
        spec(name="b", disk_profile="big"),
        spec(name="c"),
        spec(name="d", disk_profile="big"),
        spec(name="c"),
        spec(name="e", disks=[{"name": "one", "sise": 1}]),
        spec(name="f", disks=[{"name": "one", "size": "z"}, {"name": "two", "size": "y"}]),
    ]
    with pytest.raises(InputError) as caught:
        read_machines(specs, disk_profiles=profiles, where="vms")
    assert [line.split(". ")[0] for line in str(caught.value).splitlines()] == [
        "vms[0]: unknown option 'vcpu'",
        "vms[0]: unknown option 'memroy'",
        "vms[0].seed: unknown option 'usr'",
        "disk_profiles.big.system.size: 'x' is not a size",
        "vms[4].name: the name 'c' is taken by vms[2] already",
        "vms[5].disks[0]: unknown option 'sise'",
        "vms[6].disks[0].size: 'z' is not a size",
        "vms[6].disks[1].size: 'y' is not a size",
    ]


def test_items_of_another_list_have_the_names_that_they_have_there() -> None:
    places = ["virt_vms[3]", "virt_vms[7]"]
    with pytest.raises(InputError, match=r"^virt_vms\[7\]: unknown option 'vcpu'"):
        read_machines([spec(name="a"), spec(name="b", vcpu=1)], places=places)
    with pytest.raises(InputError, match="^places: there are 2 for 1 machines. Give one for each"):
        read_machines([spec(name="a")], places=places)


def test_profiles_and_defaults_are_named_by_their_own_place() -> None:
    with pytest.raises(InputError, match=r"^disk_profiles\.big\.system\.size: 'x' is not a size"):
        read_machine(spec(disk_profile="big"), disk_profiles={"big": {"system": {"size": "x"}}})
    with pytest.raises(InputError, match="^seed: unknown option 'usr'"):
        read_machine(MINIMAL, seed_defaults={"usr": "x"})


@pytest.mark.parametrize("specs", ["web1", {"name": "web1"}, None])
def test_what_is_no_list_of_machines_is_refused(specs: t.Any) -> None:
    with pytest.raises(InputError, match="^vms: .* is not a list of machines"):
        read_machines(specs, where="vms")


def test_an_override_of_one_machine_does_not_reach_the_next() -> None:
    profiles = {"default": {"eth0": {"bridge": "br1"}}}
    first, second = read_machines(
        [spec(name="a", nics={"eth0": {"mac": "52:54:00:00:00:01", "model": "e1000"}}), spec(name="b")],
        nic_profiles=profiles,
    )
    assert (first.nics[0].source, first.nics[0].model) == ("br1", "e1000")
    assert second.nics[0] == Nic(name="eth0", source="br1", mac=stable_mac("b", "eth0"))


@pytest.mark.parametrize(("given", "missing"), [({}, "vcpus"), ({"vcpus": 1}, "memory")])
def test_a_single_machine_that_is_nowhere_is_named(given: dict[str, t.Any], missing: str) -> None:
    """Whoever has misspelled the name on the command line asks for no new machine."""
    with pytest.raises(InputError) as caught:
        read_machine({"name": "wbe1", **given})
    assert str(caught.value) == (
        f"there is no machine 'wbe1', and {missing} is missing. A new machine needs name, vcpus and memory"
    )
