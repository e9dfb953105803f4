# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a hypervisor, on libvirt's test driver."""

from __future__ import annotations

import os
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, need, read_description
from ansible_collections.brine.virt.plugins.module_utils._host.connection import is_local, libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts import host as host_facts
from ansible_collections.brine.virt.plugins.module_utils._host.facts import networks as host_networks
from ansible_collections.brine.virt.plugins.module_utils._host.facts.host import observe_host
from ansible_collections.brine.virt.plugins.module_utils._host.facts.maintenance import read_maintenance
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains, write_notes
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import DiskNote
from ansible_collections.brine.virt.plugins.module_utils._operations.create import decision
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.machines.unreadable import define_unreadable


@pytest.fixture
def host(node_uri: str) -> dict[str, t.Any]:
    with open_connection(node_uri, read_only=True) as conn:
        return observe_host(conn)


def test_committed_counts_every_machine_with_the_most_that_it_may_take(host: dict[str, t.Any]) -> None:
    assert host["vcpus"] == {"total": 8, "committed": 6, "running": 4}
    assert host["memory"] == {"total_mib": 16384, "committed_mib": 5632, "running_mib": 4096, "free_mib": 10752}
    assert [(m["name"], m["state"], m["vcpus"], m["memory_mib"], m["building"]) for m in host["machines"]] == [
        ("db1", "shutoff", 1, 1024, False),
        ("half", "shutoff", 1, 512, True),
        ("web1", "running", 4, 4096, False),
    ]
    assert host["errors"] == []
    assert {m["name"]: m["anti_affinity"] for m in host["machines"]}["web1"] == []
    assert {m["name"]: m["moving"] for m in host["machines"]} == {"db1": None, "half": None, "web1": None}


def test_a_disk_that_a_running_machine_gets_with_its_next_start_is_one_of_its_disks(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        web1 = list_domains(conn)["web1"]
        assert web1.notes is not None
        write_notes(web1.handle, replace(web1.notes, disks=(*web1.notes.disks, DiskNote("data", "sda"))))
        machines = {machine["name"]: machine["disks"] for machine in observe_host(conn)["machines"]}
    assert machines == {"db1": [], "half": [], "web1": ["system", "data"]}


def test_only_the_hypervisor_itself_can_say_that_it_is_in_maintenance(
    tmp_path: Path, node_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "maintenance.json"
    path.write_text('{"since": "2026-11-21T10:00:00Z", "reason": "fan"}')
    monkeypatch.setattr(host_facts, "read_maintenance", lambda: read_maintenance(str(path)))
    with open_connection(node_uri, read_only=True) as conn:
        assert observe_host(conn)["maintenance"] is None
        monkeypatch.setattr(host_facts, "is_local", lambda uri: True)
        assert observe_host(conn)["maintenance"] == {"since": "2026-11-21T10:00:00Z", "reason": "fan"}


def test_a_cpu_that_libvirt_does_not_tell_is_said(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        host = observe_host(conn, guest_cpu=True)
    assert host["guest_cpu"] is None
    assert len(host["errors"]) == 1


def test_free_is_never_below_zero() -> None:
    with open_connection("test:///default", read_only=True) as conn:  # 3 GiB, with a machine of 8 GiB
        memory = observe_host(conn)["memory"]
    assert memory == {"total_mib": 3072, "committed_mib": 8192, "running_mib": 8192, "free_mib": 0}


@pytest.mark.parametrize(("memory_mib", "vcpus"), [(8192, 6), (1024, 4)])
def test_committed_counts_a_running_machine_with_what_it_gets_at_its_next_start_too(
    node_uri: str, memory_mib: int, vcpus: int
) -> None:
    """Where a new machine is created, and where one arrives by a move, its definition counts."""
    with open_connection(node_uri) as conn:
        xml = etree.fromstring(conn.lookupByName("web1").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        for tag, value in (("memory", memory_mib * 1024), ("currentMemory", memory_mib * 1024), ("vcpu", vcpus)):
            need(xml, tag).text = str(value)
        conn.defineXML(etree.tostring(xml, encoding="unicode"))
        host = observe_host(conn)
        defined_mib = decision._memory_mib(list_domains(conn)["web1"])
    assert (host["memory"]["running_mib"], host["vcpus"]["running"], defined_mib) == (4096, 4, memory_mib)
    more_mib, more_vcpus = max(0, memory_mib - 4096), max(0, vcpus - 4)
    assert (host["memory"]["committed_mib"], host["vcpus"]["committed"]) == (5632 + more_mib, 6 + more_vcpus)
    web1 = next(machine for machine in host["machines"] if machine["name"] == "web1")
    assert (web1["memory_mib"], web1["vcpus"]) == (4096 + more_mib, 4 + more_vcpus)


def test_what_the_hypervisor_is(host: dict[str, t.Any]) -> None:
    assert host["cpu"] == {
        "model": None,
        "vendor": None,
        "mhz": 2400,
        "sockets": 2,
        "cores": 2,
        "threads": 2,
        "numa_nodes": 2,
    }
    assert host["domain_types"] == ["test"]
    assert host["qemu_version"] is None
    assert host["libvirt_version"].count(".") == 2
    assert host["uri"].startswith("test:///")


def test_networks_and_bridges(host: dict[str, t.Any]) -> None:
    assert host["networks"] == [
        {"name": "default", "active": True, "autostart": False, "bridge": "virbr0", "forward": "nat"}
    ]
    assert host["bridges"] == ["br0", "virbr0"]  # eth1 is none


def test_the_bridge_of_a_stopped_network_is_none(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        conn.networkLookupByName("default").destroy()
        assert observe_host(conn)["bridges"] == ["br0"]


def test_pools(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        conn.storagePoolLookupByName("default").setAutostart(True)
        conn.storagePoolLookupByName("images").destroy()
        host = observe_host(conn)
    assert host["pools"] == [
        {
            "name": "default",
            "type": "dir",
            "active": True,
            "autostart": True,
            "path": "/var/lib/libvirt/images",
            "shared_storage": None,
            "file_system": None,
            "capacity_mib": 102400,
            "allocation_mib": 0,
            "available_mib": 102400,
        },
        {
            "name": "images",
            "type": "dir",
            "active": False,
            "autostart": False,
            "path": "/var/lib/libvirt/brine",
            "shared_storage": None,
            "file_system": None,
            "capacity_mib": None,
            "allocation_mib": None,
            "available_mib": None,
        },
    ]
    assert host["images"] == []


@pytest.mark.parametrize(
    ("pool", "images"),
    [
        (
            "images",
            [
                {
                    "name": "debian",
                    "volume": "debian-0123456789abcdef.qcow2",
                    "pool": "images",
                    "format": "qcow2",
                    "size_mib": 513,
                    "virtual_size_mib": 2048,
                    "path": "/var/lib/libvirt/brine/debian-0123456789abcdef.qcow2",
                    "size_bytes": None,
                    "virtual_size_bytes": 2 << 30,
                    "provenance": None,
                }
            ],
        ),
        ("default", []),
        ("nothing", []),
    ],
)
def test_images_are_the_volumes_with_such_names(node_uri: str, pool: str, images: list[dict[str, t.Any]]) -> None:
    with open_connection(node_uri, read_only=True) as conn:
        assert observe_host(conn, image_pool=pool)["images"] == images


def test_an_image_whose_file_gives_no_answer_hides_nothing_else(
    tmp_path: Path, node_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, other = "debian-0123456789abcdef.qcow2", "alpine-0123456789abcdef.raw"
    # Nobody ever writes into it: whoever opens it waits, as with a file of an NFS server that is gone.
    os.mkfifo(tmp_path / silent)
    (tmp_path / other).write_bytes(bytes(512))
    monkeypatch.setattr(host_facts, "is_local", lambda _uri: True)
    monkeypatch.setattr(host_facts, "_ANSWER_SECONDS", 0.5)
    with open_connection(node_uri) as conn:
        pool = conn.storagePoolCreateXML(
            f"<pool type='dir'><name>store</name><target><path>{tmp_path}</path></target></pool>"
        )
        for name in (silent, other):
            pool.createXML(f"<volume><name>{name}</name><capacity unit='M'>1</capacity></volume>")
        found = observe_host(conn, image_pool="store", subsets=["images"])
    assert [(image["name"], image["size_bytes"], image["provenance"]) for image in found["images"]] == [
        ("alpine", 512, None),
        ("debian", None, None),
    ]
    assert found["errors"] == [f"image file {tmp_path}/{silent}: no answer within 0.5 s"]


@pytest.mark.parametrize(
    ("uri", "local"),
    [
        ("qemu:///system", True),
        ("qemu:///session", True),
        ("qemu+unix:///system?socket=/run/x", True),
        ("qemu+tls://hv1/system", False),
        ("qemu+ssh://root@hv1:22/system", False),
        ("qemu://hv1/system", False),
        ("test:///default", False),
    ],
)
def test_which_uris_mean_this_machine(uri: str, local: bool) -> None:
    assert is_local(uri) is local


def test_bridges_of_the_kernel(tmp_path: Path) -> None:
    for name in ("br0/bridge", "br1/bridge", "eth0", "lo"):
        (tmp_path / name).mkdir(parents=True)
    assert sorted(host_networks._kernel_bridges(str(tmp_path))) == ["br0", "br1"]


# Shortened from what libvirt 9.0 says on an x86_64 host with KVM.
CAPABILITIES = """
<capabilities>
  <guest><os_type>hvm</os_type>
    <arch name='i686'><domain type='qemu'/><machine>pc-i440fx-7.2</machine></arch></guest>
  <guest><os_type>hvm</os_type>
    <arch name='x86_64'>
      <machine canonical='pc-i440fx-7.2' maxCpus='255'>pc</machine>
      <machine maxCpus='288'>pc-q35-7.2</machine>
      <machine canonical='pc-q35-7.2' maxCpus='288'>q35</machine>
      <domain type='qemu'/>
      <domain type='kvm'/>
    </arch></guest>
  <guest><os_type>xen</os_type>
    <arch name='x86_64'><domain type='xen'/></arch></guest>
</capabilities>
"""


@pytest.mark.parametrize(
    ("arch", "types", "machines", "default"),
    [
        ("x86_64", ["kvm", "qemu"], ["pc", "pc-i440fx-7.2", "pc-q35-7.2", "q35"], "pc-q35-7.2"),
        ("i686", ["qemu"], ["pc-i440fx-7.2"], None),
        ("aarch64", [], [], None),
    ],
)
def test_what_runs_guests_of_its_own_architecture(
    arch: str, types: list[str], machines: list[str], default: str | None
) -> None:
    capabilities = etree.fromstring(CAPABILITIES)
    assert host_facts._domain_types(capabilities, arch) == types
    assert host_facts._machine_types(capabilities, arch) == machines
    assert host_facts._default_machine_type(capabilities, arch) == default


def test_a_machine_that_no_parser_takes_is_committed_all_the_same(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        before = observe_host(conn)
        define_unreadable(conn, memory_mib=512, vcpus=3)
        after = observe_host(conn)
    assert after["memory"]["committed_mib"] - before["memory"]["committed_mib"] == 512
    assert after["vcpus"]["committed"] - before["vcpus"]["committed"] == 3
    # Placement takes none of its disks for a new one.
    assert [machine["vcpus"] for machine in after["machines"] if machine["disks"] is None] == [3]


def test_a_network_that_no_parser_takes_is_listed_with_an_error(node_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test driver keeps no metadata of networks, which is where libvirt lets such things in."""

    def read(what: str, text: str) -> t.Any:
        return read_description(what, text.replace("<name>", "<name>&x;"))

    monkeypatch.setattr(host_networks, "read_description", read)
    with open_connection(node_uri) as conn:
        host = observe_host(conn)
    assert host["networks"] == [
        {"name": "default", "active": True, "autostart": False, "bridge": "virbr0", "forward": None}
    ]
    (error,) = host["errors"]
    assert error.startswith("the description of network default cannot be read as XML: Entity 'x' not defined")


_GONE = {
    "pools": (libvirt.virStoragePool, "default"),
    "networks": (libvirt.virNetwork, "default"),
    "images": (libvirt.virStorageVol, "debian-0123456789abcdef.qcow2"),
}


@pytest.mark.parametrize("subset", _GONE)
def test_what_goes_while_it_is_listed_hides_nothing_else(
    node_uri: str, monkeypatch: pytest.MonkeyPatch, subset: str
) -> None:
    """Others remove pools, networks and images at the same time."""
    kind, name = _GONE[subset]
    codes = {"pools": "NO_STORAGE_POOL", "networks": "NO_NETWORK", "images": "NO_STORAGE_VOL"}
    describe = kind.XMLDesc

    def gone(thing: t.Any, flags: int = 0) -> str:
        if thing.name() != name:
            return str(describe(thing, flags))
        error = libvirt.libvirtError("")
        error.err = (getattr(libvirt, f"VIR_ERR_{codes[subset]}"), 0, "it is not there", 2, None, None, None, 0, 0)
        raise error

    def names() -> tuple[set[str], list[str]]:
        with open_connection(node_uri) as conn:
            host = observe_host(conn, image_pool="images", subsets=[subset])
        return {one["volume" if subset == "images" else "name"] for one in host[subset]}, host["errors"]

    before, errors = names()
    assert name in before
    monkeypatch.setattr(kind, "XMLDesc", gone)
    assert names() == (before - {name}, errors)
