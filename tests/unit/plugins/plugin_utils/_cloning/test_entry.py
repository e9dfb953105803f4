# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entry of a clone: what it has of the machine, what it has not, and what keeps a machine from being cloned."""

from __future__ import annotations

import shlex
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.plugin_utils._cloning.entry import CloneEntry, clone_entry, image_of

DISKS = [
    {"name": "system", "size": 8192, "image": "debian-0123456789abcdef.qcow2"},
    {"name": "data", "size": 1024, "pool": "fast", "backing": {"volume": "base.qcow2"}},
]
ENTRY: dict[str, t.Any] = {
    "name": "web1",
    "vcpus": 2,
    "memory": 1024,
    "disk_profile": "none",
    "disks": DISKS,
    "nic_profile": "none",
    "nics": [{"name": "eth0", "bridge": "br0", "mac": "52:54:00:00:00:01"}],
    "tags": ["web"],
    "state": "present",
}
STATIC = [{"name": "eth0", "bridge": "br0", "addresses": ["192.0.2.10/24"]}]


def clone(*not_exported: str, given: dict[t.Any, t.Any] | None = None, **entry: t.Any) -> CloneEntry:
    """The clone of the machine with these options. given: those of its nics."""
    found = clone_entry({**ENTRY, **entry}, not_exported, "web2", given or {})
    # Whatever comes out, a new machine can be that.
    assert read_machine(found.entry).name == "web2"
    return found


def refusal(*not_exported: str, **options: t.Any) -> str:
    with pytest.raises(VirtError) as caught:
        clone(*not_exported, **options)
    return str(caught.value)


def test_what_stays_and_what_is_new() -> None:
    found = clone("seed: only a hash of it is known")
    assert found.entry == {
        **{key: ENTRY[key] for key in ("vcpus", "memory", "disk_profile", "nic_profile", "tags")},
        "name": "web2",
        "disks": [
            {"name": "system", "size": 8192, "image": "clone-of-web1-system"},
            {"name": "data", "size": 1024, "pool": "fast", "image": "clone-of-web1-data"},
        ],
        "nics": [{"name": "eth0", "bridge": "br0"}],
    }
    assert found.images == {
        "clone-of-web1-system": {"machine": "web1", "disk": "system"},
        "clone-of-web1-data": {"machine": "web1", "disk": "data"},
    }
    assert found.remarks == [
        "disk system: image clone-of-web1-system",
        "disk data: image clone-of-web1-data",
        "not taken along: seed: only a hash of it is known",
    ]
    assert ENTRY["disks"][0]["image"].startswith("debian-"), "the input is not changed"


def test_names_of_images_are_no_longer_than_they_may_be() -> None:
    names = {image_of("a" * 63, disk) for disk in ("system", "data")}
    assert len(names) == 2 and {len(name) for name in names} == {63}


@pytest.mark.parametrize("name", ["my vm", "a+b", "größe"])
def test_a_machine_whose_name_no_image_can_have(name: str) -> None:
    assert refusal(name=name) == (
        f"vm: machine {name!r} cannot be cloned: its disks become images with its name, and the name of an image has "
        "only letters, digits, dots, dashes and underscores. Rename it first: virsh domrename "
        f"{shlex.quote(name)} NEW-NAME"
    )
    assert clone(name="web_1.a-b")


def test_full_copies_and_raw_disks_stay_such() -> None:
    disks = [
        {"name": "a", "size": "8MiB", "image": "i", "clone": "copy"},
        {"name": "b", "size": "8MiB", "format": "raw"},
    ]
    found = clone(disks=disks)
    assert [disk["image"] for disk in found.entry["disks"]] == ["clone-of-web1-a", "clone-of-web1-b"]
    assert [(disk.clone, disk.format) for disk in read_machine(found.entry).disks] == [("copy", None), (None, "raw")]


def test_a_drive_keeps_its_medium() -> None:
    found = clone(
        disks=[*DISKS, {"name": "cd", "device": "cdrom", "source": "tools.iso"}, {"name": "e", "device": "cdrom"}]
    )
    assert found.entry["disks"][2]["source"] == "tools.iso" and len(found.images) == 2
    assert "disk cd: default/tools.iso, as web1 has it" in found.remarks


def test_a_drive_of_a_machine_without_a_seed_of_ours_is_left_empty() -> None:
    """Whoever made it has put a seed for its guest into a drive, and another guest would become the same machine."""
    drives = [
        {"name": "cd", "device": "cdrom", "pool": "isos", "source": "web1-cidata.iso", "format": "raw"},
        {"name": "e", "device": "cdrom"},
        {"name": "a", "device": "floppy", "source": "seed.img", "readonly": True},
        {"name": "fixed", "source": "seed-web1.img", "readonly": True},
    ]
    found = clone(disks=[*DISKS, *drives], seed={"method": "none"})
    kept = [{key: disk[key] for key in ("name", "device")} for disk in found.entry["disks"][2:]]
    assert kept == [{"name": "cd", "device": "cdrom"}, drives[1], {"name": "a", "device": "floppy"}]
    assert not any("source" in disk for disk in found.entry["disks"])
    assert found.remarks[2:5] == [
        "disk cd: an empty drive, as isos/web1-cidata.iso may be the seed of web1",
        "disk a: an empty drive, as default/seed.img may be the seed of web1",
        "disk fixed: left out, as default/seed-web1.img may be the seed of web1",
    ]


def test_a_writable_floppy_is_taken_out_as_it_cannot_be_adopted() -> None:
    told = refusal(disks=[*DISKS, {"name": "a", "device": "floppy", "source": "notes.img"}])
    assert "Take the floppy out first" in told and "adopt" not in told


def test_a_disk_with_a_dot_in_its_name_is_no_option_of_another() -> None:
    told = refusal("disks.data.log: storage pool p is not active")
    assert "disk data.log of machine web1 cannot be cloned: storage pool p is not active" in told


def test_a_disk_of_a_size_that_is_no_whole_number_of_mib_is_told_once_and_with_that() -> None:
    """As a disk that came from elsewhere may have. Without an image there is no other way to say its size."""
    size = "size: 10000 bytes, which is not a whole number of MiB"
    assert refusal(f"disks.odd.{size}", "disks.odd") == (
        f"disk odd of machine web1 cannot be cloned: {size}. Grow it to one first: virsh vol-resize"
    )


def test_a_copy_that_takes_long_has_the_time() -> None:
    found = clone(disks=[{"name": "a", "size": 8192}, {"name": "b", "size": 1048576}, {"name": "c", "image": "i"}])
    assert [image.get("timeout") for image in found.images.values()] == [None, 52428, None]


@pytest.mark.parametrize(
    ("disk", "missing", "sentence"),
    [
        (
            {"name": "shared", "pool": "fast", "source": "a.raw", "shareable": True},
            "",
            "disk shared of machine web1 is fast/a.raw, which is not its own, and its clone would write"
            " to it as well. Make it its own with brine.virt.adopt -e vm=web1 -e disks=TARGET, or take it out first",
        ),
        ({"name": "lun", "device": "lun", "source": "/dev/sdx"}, "", "is /dev/sdx, which is not its own"),
        (None, "disks.net: it is rbd:p/i", "disk net of machine web1 cannot be cloned: it is rbd:p/i"),
        (None, "disks.odd", "disk odd of machine web1 cannot be cloned: an entry cannot describe it"),
        (
            None,
            "devices/disk[vdz] type=file device=disk",
            "disk vdz of machine web1 cannot be described in an entry of virt_vms. Detach it first:"
            " virsh detach-disk web1 vdz --config",
        ),
        (
            None,
            "devices/disk[vda]/encryption format=luks",
            "disk vda of machine web1 is encrypted, and an image is not",
        ),
        (None, "devices/disk[vda]/source/encryption format=luks", "disk vda of machine web1 is encrypted"),
    ],
)
def test_disks_that_cannot_be_cloned(disk: dict[str, t.Any] | None, missing: str, sentence: str) -> None:
    assert sentence in refusal(*([missing] if missing else []), disks=[*DISKS, *([disk] if disk else [])])


def test_what_is_missing_of_a_disk_or_of_a_drive_is_only_said() -> None:
    lines = ["disks.data.serial: 'x'", "devices/disk[vda]/driver queues=4", "devices/disk[sdc] type=file device=cdrom"]
    assert clone(*lines).remarks[-3:] == [f"not taken along: {line}" for line in lines]


def test_static_addresses_are_asked_for() -> None:
    assert refusal(nics=STATIC) == (
        "nics.eth0: machine web1 has 192.0.2.10/24 there, and two machines cannot have one address. Say which one its"
        ' clone gets, with gateway and nameservers: -e \'{"nics": {"eth0": {"addresses": ["192.0.2.20/24"], "gateway":'
        ' "192.0.2.1"}}}\'; with no addresses ([]) it asks DHCP'
    )


@pytest.mark.parametrize(
    ("given", "nic"),
    [
        (
            {"addresses": ["192.0.2.20/24"], "gateway": "192.0.2.1"},
            {"addresses": ["192.0.2.20/24"], "gateway": "192.0.2.1"},
        ),
        ({"addresses": []}, {}),
        ({"addresses": "192.0.2.20/24", "bridge": "br1"}, {"addresses": "192.0.2.20/24", "bridge": "br1"}),
    ],
)
def test_addresses_of_its_own(given: dict[str, t.Any], nic: dict[str, t.Any]) -> None:
    found = clone(nics=STATIC, given={"eth0": given})
    assert found.entry["nics"] == [{"name": "eth0", "bridge": "br0", **nic}]


def test_a_nic_that_is_plugged_into_something_else() -> None:
    found = clone(given={"eth0": {"network": "default", "link": "down"}})
    assert found.entry["nics"] == [{"name": "eth0", "network": "default", "link": "down"}]


def test_options_of_what_it_was_plugged_into_go_with_that() -> None:
    nics = [
        {"name": "eth0", "network": "lan", "portgroup": "dmz", "mtu": 9000},
        {"name": "eth1", "direct": "eno1", "mode": "passthrough"},
        {"name": "eth2", "direct": "eno2", "mode": "private"},
    ]
    found = clone(nics=nics, given={"eth0": {"bridge": "br1"}, "eth1": {"direct": "eno3"}, "eth2": {"mode": "vepa"}})
    assert found.entry["nics"] == [
        {"name": "eth0", "bridge": "br1", "mtu": 9000},
        {"name": "eth1", "direct": "eno3"},
        {"name": "eth2", "direct": "eno2", "mode": "vepa"},
    ]


def test_a_device_that_a_nic_has_for_itself_is_asked_for() -> None:
    nics = [{"name": "eth0", "direct": "eno1", "mode": "passthrough"}]
    assert refusal(nics=nics) == (
        "nics.eth0: machine web1 has the device eno1 to itself. Say what its clone is plugged into:"
        ' -e \'{"nics": {"eth0": {"direct": "eno2", "mode": "passthrough"}}}\', or bridge, or network'
    )
    # The other machines of the device would be shut out by web1, which has it to itself, and by whoever starts first.
    assert "has the device eno1 to itself" in refusal(nics=nics, given={"eth0": {"direct": "eno1"}})
    assert "has the device eno1 to itself" in refusal(nics=nics, given={"eth0": {"mode": "bridge"}})


def test_a_filter_does_not_let_it_be_the_machine() -> None:
    own = {"IP": {"value": "192.0.2.10"}, "IPV6": {"value": "2001:db8::a"}, "MAC": {"value": "52:54:00:00:00:01"}}
    nic = {**STATIC[0], "filter": {"name": "clean-traffic", "parameters": {**own, "X": {"value": "1"}}}}
    address = {"addresses": ["192.0.2.20/24"]}
    found = clone(nics=[nic], given={"eth0": address})
    assert found.entry["nics"][0]["filter"] == {"name": "clean-traffic", "parameters": {"X": {"value": "1"}}}
    assert found.remarks[-1] == "nics.eth0.filter: IP, IPV6, MAC left out, as they are web1's"
    assert clone(nics=[nic], given={"eth0": {**address, "filter": "other"}}).entry["nics"][0]["filter"] == "other"
    nic["filter"] = {"name": "mine", "parameters": {"ALLOWED": {"value": "192.0.2.10"}}}
    assert clone(nics=[nic], given={"eth0": address}).entry["nics"][0]["filter"] == {"name": "mine"}
    nic["filter"] = {"name": "mine"}
    assert clone(nics=[nic], given={"eth0": address}).entry["nics"][0]["filter"] == {"name": "mine"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"eth0": {"addresses": ["192.0.2.10/25"]}}, "nics.eth0.addresses: 192.0.2.10 is the address of machine web1."),
        ({"eth0": {"addresses": "192.0.2.10/24"}}, "nics.eth0.addresses: 192.0.2.10 is the address of machine web1."),
        ({"eth0": {"addresses": None}}, "nics.eth0: machine web1 has 192.0.2.10/24 there, "),
        ({0: {"addresses": []}}, "nics: machine web1 has no nic '0'."),
        ({"eht0": {"addresses": []}}, "nics: machine web1 has no nic 'eht0'. Did you mean eth0?"),
        ({"eth0": ["192.0.2.20/24"]}, "nics.eth0: ['192.0.2.20/24'] is not a mapping of options."),
        ({"eth0": {"name": "eth1", "addresses": []}}, "is not a mapping of options"),
    ],
)
def test_nics_that_are_wrong(given: dict[t.Any, t.Any], sentence: str) -> None:
    assert sentence in refusal(nics=STATIC, given=given)


def test_an_address_of_another_nic_of_the_machine() -> None:
    nics = [*STATIC, {"name": "eth1", "bridge": "br1", "addresses": ["192.0.2.11/24"]}, {"name": "eth2"}]
    given = {"eth0": {"addresses": ["192.0.2.11/24"]}, "eth1": {"addresses": []}, "eth2": {"addresses": "192.0.2.10/8"}}
    assert refusal(nics=nics, given=given) == (
        "nics.eth0.addresses: 192.0.2.11 is the address of machine web1. Give its clone another one\n"
        "nics.eth2.addresses: 192.0.2.10 is the address of machine web1. Give its clone another one"
    )


def test_a_nic_whose_name_yaml_reads_as_a_number() -> None:
    found = clone(nics=[{**STATIC[0], "name": "0"}], given={0: {"addresses": ["192.0.2.20/24"]}})
    assert found.entry["nics"] == [{"name": "0", "bridge": "br0", "addresses": ["192.0.2.20/24"]}]


PORT = "1f0bba73-3f8b-4b1c-9a5e-6d2c0a9e7b11"


def test_a_port_of_a_switch_is_one_machines() -> None:
    port = {"type": "802.1Qbg", "managerid": "11", "typeid": "7", "typeidversion": "1"}
    own = {**port, "instanceid": "09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4f"}
    nics = [{"name": "eth0", "direct": "eno1", "virtualport": own}]
    found = clone(nics=nics)
    assert found.entry["nics"][0]["virtualport"] == port
    assert "nics.eth0.virtualport.instanceid: left out, as it is web1's" in found.remarks
    # What is said of the clone's own is not.
    given = {"eth0": {"virtualport": {**port, "instanceid": PORT}}}
    found = clone(nics=nics, given=given)
    assert found.entry["nics"][0]["virtualport"] == given["eth0"]["virtualport"]
    assert not [remark for remark in found.remarks if "virtualport" in remark]


def test_a_port_that_somebody_has_made_for_the_machine_is_asked_for() -> None:
    nics = [{"name": "eth0", "bridge": "br0", "virtualport": {"type": "midonet", "interfaceid": "1"}}]
    assert refusal(nics=nics) == (
        "nics.eth0: machine web1 has the port 1 of its midonet there. Say which one its clone gets:"
        ' -e \'{"nics": {"eth0": {"virtualport": {"type": "midonet", "interfaceid": "UUID"}}}}\''
    )
    given = {"eth0": {"virtualport": {"type": "midonet", "interfaceid": PORT}}}
    assert clone(nics=nics, given=given).entry["nics"][0]["virtualport"]["interfaceid"] == PORT


def test_a_console_is_as_the_export_has_it() -> None:
    """Which does not open one to everybody that only its password protects."""
    line = "graphics.listen: 0.0.0.0, where everybody could use the console without its password"
    found = clone(line, "graphics.password: a secret", graphics=True)
    assert found.entry["graphics"] is True
    assert found.remarks[-2:] == [f"not taken along: {line}", "not taken along: graphics.password: a secret"]


def test_what_only_one_machine_may_have_is_left_out_and_said() -> None:
    nic = {"name": "eth0", "bridge": "br0", "virtualport": {"type": "openvswitch", "interfaceid": "x"}}
    options: dict[str, t.Any] = {
        "host_devices": ["0000:03:00.0"],
        "serials": [{"type": "tcp", "port": 4555}, {"type": "pty", "log": "/var/log/web1"}],
        "consoles": [{"type": "file", "path": "/var/log/web1"}],
        "graphics": {"type": "vnc", "port": 5901, "websocket": -1},
        "variables": {"ansible_host": "192.0.2.10", "port": 80},
        "tpm": {"version": "2.0"},
        "firmware": "efi",
        "shared_folders": [
            {"source": "/srv/www", "tag": "www"},
            {"source": "/srv/doc", "tag": "doc", "readonly": True},
        ],
        "seed": {"method": "none"},
    }
    found = clone(**options)
    entry = found.entry
    assert "host_devices" not in entry and "consoles" not in entry
    assert entry["serials"] == [{"type": "pty"}]
    assert entry["graphics"] == {"type": "vnc", "websocket": -1} and entry["variables"] == {"port": 80}
    assert [line.partition(":")[0] for line in found.remarks[2:]] == [
        *("host_devices", "serials", "consoles", "graphics.port", "variables.ansible_host"),
        *("shared_folders", "tpm", "firmware", "seed"),
    ]
    assert "shared_folders: /srv/www, to which web1 writes as well" in found.remarks
    other = clone(nics=[nic])
    assert other.entry["nics"][0]["virtualport"] == {"type": "openvswitch"}
    assert other.remarks[-1] == "nics.eth0.virtualport.interfaceid: left out, as it is web1's"


def test_a_serial_device_that_stays_as_it_is_is_not_said_to_be_left_out() -> None:
    found = clone(serials=["pty", "pty"], consoles=[{"type": "pty", "target_type": "virtio"}])
    assert (len(found.entry["serials"]), len(found.entry["consoles"])) == (2, 1)
    assert not [remark for remark in found.remarks if "left out" in remark]


def test_from_what_image_its_disks_were_created_is_nothing_that_a_clone_lacks() -> None:
    line = "image: debian-0123456789abcdef.qcow2, as it is not known which disk was created from it"
    assert not [remark for remark in clone(line).remarks if "debian" in remark]
