# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was made of a description is exported as a description that changes nothing, and that makes the same machine."""

from __future__ import annotations

import json
import subprocess
import typing as t
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts.guest_platform import GuestPlatforms
from ansible_collections.brine.virt.plugins.module_utils._host.storage import pools
from ansible_collections.brine.virt.plugins.module_utils._model.export.leftovers import find_leftovers
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    DiskNote,
    ImageNote,
    MachineNotes,
    NicNote,
    SeedNote,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.table import Values
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.description import HARDWARE
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import Machine
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._model.xml.devices import Placed, disk_targets
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource
from ansible_collections.brine.virt.plugins.module_utils._model.xml.domain import domain_xml
from ansible_collections.brine.virt.plugins.module_utils._operations.export import origins
from ansible_collections.brine.virt.plugins.module_utils._operations.export.machines import MachineExports
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model import strategies
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    MAKE,
    POOL,
    PurgeHost,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volume_files import make_file
from ansible_collections.brine.virt.tests.unit.plugins.modules.test_virt_init_existing import (
    must_change_nothing,
    plans,
)
from ansible_collections.brine.virt.tests.unit.plugins.modules.test_virt_init_options import NIC, names
from ansible_collections.brine.virt.tests.unit.schema.editor import complaints_of_machine

pytestmark = pytest.mark.medium

IMAGE = "debian-0123456789abcdef.qcow2"
CORE: dict[str, t.Any] = {"name": "web1", "vcpus": 1, "memory": 128, "disk_profile": "none", "nic_profile": "none"}
NO_SEED: dict[str, t.Any] = {"seed": {"method": "none"}}
OFF = {**NO_SEED, "state": "present"}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PurgeHost]:
    monkeypatch.setattr(pools, "is_local", lambda _uri: True)
    monkeypatch.setattr(libvirt.virStoragePool, "createXML", make_file)
    (tmp_path / "pool").mkdir()
    node = tmp_path / "node.xml"
    node.write_text(f"<node>{POOL.format('default', tmp_path / 'pool')}</node>", encoding="utf-8")
    with open_connection(f"test://{node}") as conn:
        yield PurgeHost(conn, tmp_path)


def exported(conn: t.Any, name: str = "web1") -> tuple[Values, tuple[str, ...]]:
    """The entry of a machine, which is accepted everywhere and changes nothing; and what is not in it."""
    (result,) = MachineExports(conn).results([name])
    assert result.export is not None, result.error
    entry: Values = json.loads(json.dumps(result.export.entry))
    (plan,) = plans(Hypervisor(conn, image_pool="default"), entry)
    must_change_nothing(plan)
    assert complaints_of_machine({**entry, "hypervisor": "hv1"}) == []
    read_machine(entry)
    # What the test driver calls the other end of a nic; QEMU's driver keeps such a name for the running machine alone.
    return entry, tuple(text for text in result.export.not_exported if not text.endswith("target dev=testnet0"))


class TestMinimal:
    """What was said comes back, and nothing else."""

    @pytest.mark.parametrize(
        "spec",
        [
            {},
            {"vcpus": {"maximum": 4, "current": 2}},
            {"memory": {"maximum": 256, "current": 128}},
            {"disks": [{"name": "system", "size": 64}]},
            {
                "disks": [
                    {"name": "system", "size": 64, "format": "raw"},
                    {"name": "data", "size": "1MiB", "model": "scsi"},
                ]
            },
            {"disks": [{"name": "cd", "device": "cdrom"}]},
            {"disks": [{"name": "a", "size": "1MiB", "boot_order": 2}, {"name": "b", "size": "1MiB", "boot_order": 1}]},
            {"disks": [{"name": "system", "size": "1MiB", "cache": "none", "io": "native", "serial": "S1"}]},
            {"nics": [{"name": "eth0", "network": "n1"}]},
            {"nics": [{"name": "eth0", "network": "n1", "mac": "52:54:00:12:34:56", "mtu": 9000, "model": "e1000"}]},
            {"nics": [{"name": "eth0", "network": "n1", "addresses": ["192.0.2.10/24"]}]},
            {"title": "A {{ title }}", "description": "two\nlines", "tags": ["a", "b"], "labels": ["ssd"]},
            {"variables": {"a": {"b": [1, "{{ x }}"]}}, "anti_affinity": ["web"], "autostart": True},
            {"features": {"kvm-hidden": True}, "clock": {"offset": "localtime"}},
            {"boot": {"devices": ["network", "hd"]}, "serials": []},
            {"graphics": "vnc"},
            {"graphics": {"type": "vnc", "port": 5901, "listen": "0.0.0.0"}, "rng": False, "tpm": True},
            {"cpu": {"mode": "custom", "model": "Nehalem"}},
            {"cpu": {"topology": {"sockets": 1, "cores": 2, "threads": 1}}, "vcpus": 2},
            {"host_devices": ["0000:03:00.0"]},
            {"serials": [{"type": "tcp", "port": 2000, "host": "127.0.0.1", "mode": "bind"}]},
        ],
        ids=lambda spec: ",".join(spec) or "nothing",
    )  # fmt: skip
    def test_an_entry(self, host: PurgeHost, spec: dict[str, t.Any]) -> None:
        host.conn.networkCreateXML("<network><name>n1</name><bridge name='vb1'/></network>")
        whole = {**CORE, **spec, **OFF}
        host.make(**{"disks": [], **whole})
        entry, missing = exported(host.conn)
        assert (entry, missing) == (whole, ())

    def test_a_machine_on_an_image(self, host: PurgeHost) -> None:
        below = host.image(host.pool / "below.qcow2")
        host.image(host.pool / IMAGE)
        disks: list[dict[str, t.Any]] = [
            {"name": "system", "image": IMAGE, "size": 128},
            {"name": "copy", "size": "1MiB"},
            {"name": "over", "backing": {"volume": below.name, "pool": "default", "format": "qcow2"}, "size": 64},
        ]
        host.make(**CORE, **OFF, disks=disks)
        entry, missing = exported(host.conn)
        by_name = {disk["name"]: {k: v for k, v in disk.items() if k != "name"} for disk in entry["disks"]}
        assert missing == ()
        assert by_name["system"] == {"image": IMAGE, "size": 128}
        assert by_name["over"] == {k: v for k, v in disks[2].items() if k != "name"}

    def test_an_overlay_on_what_is_in_no_active_pool(self, host: PurgeHost, tmp_path: Path) -> None:
        """Without a word about it, it would be an empty disk elsewhere."""
        folder = tmp_path / "more"
        folder.mkdir()
        text = f"<pool type='dir'><name>more</name><target><path>{folder}</path></target></pool>"
        more = host.conn.storagePoolCreateXML(text, 0)
        below = host.image(folder / "below.qcow2")
        MAKE(more, f"<volume><name>{below.name}</name><capacity>67108864</capacity></volume>")
        backing = {"volume": below.name, "pool": "more", "format": "qcow2"}
        host.make(**CORE, **OFF, disks=[{"name": "over", "backing": backing, "size": 128}])
        assert exported(host.conn)[1] == ()
        more.destroy()
        entry, missing = exported(host.conn)
        assert entry["disks"] == [{"name": "over", "size": 128}]
        assert missing == (f"disks.over.backing: {below}, which is in no active storage pool",)

    def test_a_copy_of_an_image(self, host: PurgeHost) -> None:
        host.make(**CORE, **OFF, disks=[{"name": "system", "size": 64}])
        host.write(replace(host.notes(), image=ImageNote("debian", IMAGE, "default")))
        entry, _missing = exported(host.conn)
        assert entry["disks"] == [{"name": "system", "size": 64, "image": IMAGE, "clone": "copy"}]

    def test_a_copy_of_an_image_that_is_not_on_the_first_disk(self, host: PurgeHost) -> None:
        host.make(**CORE, **OFF, disks=[{"name": "data", "size": "1MiB"}, {"name": "system", "size": 64}])
        host.write(replace(host.notes(), image=ImageNote("debian", IMAGE, "default", "system")))
        entry, _missing = exported(host.conn)
        assert [disk.get("image") for disk in entry["disks"]] == [None, IMAGE]

    def test_clones_of_an_image_in_a_cluster(self, host: PurgeHost, monkeypatch: pytest.MonkeyPatch) -> None:
        """The cluster knows what each of them is a clone of; libvirt does not."""
        monkeypatch.setattr(libvirt.virStoragePool, "createXML", MAKE)
        host.conn.storagePoolCreateXML(
            "<pool type='rbd'><name>ceph</name><source><host name='mon'/><name>vms</name></source></pool>", 0
        )
        below = {"web1-system": "debian-0123456789abcdef.raw", "web1-more": "tools-0123456789abcdef.raw"}
        disks = [{"name": name, "pool": "ceph", "size": 64} for name in ("data", "system", "more")]
        host.make(**CORE, **OFF, disks=disks)
        image = ImageNote("debian", "debian-0123456789abcdef.raw", "ceph", "system")
        host.write(replace(host.notes(), image=image))
        monkeypatch.setattr(origins, "has_bindings", lambda: True)
        monkeypatch.setattr(origins, "image_below", lambda _pool, volume: below.get(volume))
        (result,) = MachineExports(host.conn).results(["web1"])
        assert result.export is not None, result.error
        assert [(disk.get("image"), disk.get("clone")) for disk in result.export.entry["disks"]] == [
            (None, None),
            ("debian-0123456789abcdef.raw", None),
            ("tools-0123456789abcdef.raw", None),
        ]

    def test_which_disk_is_on_the_image_is_remembered(self, host: PurgeHost) -> None:
        host.image(host.pool / IMAGE)
        host.make(
            **CORE, **OFF, disks=[{"name": "data", "size": "1MiB"}, {"name": "system", "image": IMAGE, "size": 64}]
        )
        assert host.notes().image == ImageNote("debian", IMAGE, "default", "system")

    @pytest.mark.parametrize(
        ("disk", "missing"),
        [("", (f"image: {IMAGE}, as it is not known which disk was created from it",)), ("system", ())],
    )
    def test_the_image_of_a_disk_that_somebody_has_detached_is_not_that_of_the_next(
        self, host: PurgeHost, disk: str, missing: tuple[str, ...]
    ) -> None:
        host.make(**CORE, **OFF, disks=[{"name": "system", "size": 64}, {"name": "data", "size": "1MiB"}])
        host.write(replace(host.notes(), image=ImageNote("debian", IMAGE, "default", disk)))
        host.detach("web1", "web1-system.qcow2")
        (before,) = MachineExports(host.conn).results(["web1"])
        assert before.export is not None
        # What it forgets is the name of the disk that it has no more.
        (plan,) = plans(Hypervisor(host.conn, image_pool="default"), dict(before.export.entry))
        assert [step.description for step in plan.steps] == ["write the metadata of web1"]
        plan.steps[0].apply()
        entry, found = exported(host.conn)
        assert (entry, found) == (before.export.entry, before.export.not_exported)
        assert entry["disks"] == [{"name": "data", "size": "1MiB", "boot_order": 2}]
        assert found == (*missing, "disks.data.target: vdb")

    def test_a_size_that_is_no_whole_number(self, host: PurgeHost) -> None:
        host.image(host.pool / IMAGE)
        host.make(**CORE, **OFF, disks=[{"name": "system", "image": IMAGE}])
        path = host.pool / "web1-system.qcow2"
        path.unlink()
        subprocess.run(
            [
                "qemu-img",
                "create",
                "-q",
                "-f",
                "qcow2",
                "-b",
                str(host.pool / IMAGE),
                "-F",
                "qcow2",
                str(path),
                "67109376",
            ],
            check=True,
        )
        entry, missing = exported(host.conn)
        assert entry["disks"] == [{"name": "system", "image": IMAGE}]
        assert missing == ("disks.system.size: 67109376 bytes, which is not a whole number of MiB",)


class TestNotExported:
    def test_secrets_are_never_in_it(self, host: PurgeHost) -> None:
        host.make(**CORE, **OFF, graphics={"type": "vnc", "password": "geheim"})
        entry, missing = exported(host.conn)
        assert entry["graphics"] == "vnc"
        assert missing == ("graphics.password: a secret",)
        assert "geheim" not in json.dumps([entry, missing])

    def test_the_seed(self, host: PurgeHost) -> None:
        host.make(**CORE, start=False, disks=[{"name": "system", "size": "1MiB"}])
        host.write(replace(host.notes(), seed=SeedNote("nocloud", "0" * 64, "ansible")))
        entry, missing = exported(host.conn)
        assert "seed" not in entry
        assert missing == ("seed: only a hash of it is known; its user is ansible",)

    def test_raw_xml_and_what_it_brought(self, host: PurgeHost) -> None:
        host.make(**CORE, **OFF, xml="<devices><sound model='ich9'/></devices><pm><suspend-to-disk enabled='no'/></pm>")
        entry, missing = exported(host.conn)
        assert "xml" not in entry
        assert missing == ("xml: only a hash of it is known", "pm", "devices/sound model=ich9")

    def test_devices_without_a_name_of_ours(self, host: PurgeHost) -> None:
        host.make(**CORE, **OFF, disks=[])
        host.attach("web1", "<disk type='file' device='cdrom'><target dev='sdc' bus='sata'/><readonly/></disk>")
        entry, missing = exported(host.conn)
        assert (entry.get("disks"), missing) == (None, ("devices/disk[sdc] type=file device=cdrom",))

    def test_a_boot_order_with_a_device_that_is_in_no_entry(self, host: PurgeHost) -> None:
        host.make(**CORE, **OFF, disks=[{"name": "system", "size": "1MiB"}])
        nic = "<interface type='user'><mac address='52:54:00:00:00:01'/><boot order='2'/></interface>"
        host.attach("web1", nic)
        entry, missing = exported(host.conn)
        assert "boot_order" not in json.dumps(entry)
        assert "boot_order: devices that are not in the entry have a place in it" in missing

    def test_a_pool_that_is_gone(self, host: PurgeHost) -> None:
        host.make(**CORE, **OFF, disks=[{"name": "system", "size": "1MiB"}])
        host.handle.destroy()
        (result,) = MachineExports(host.conn).results(["web1"])
        assert result.export is not None
        assert "disks" not in result.export.entry
        assert result.export.not_exported[0].startswith("disks.system: ")

    def test_one_that_is_unfinished_or_has_another_kind_of_name(self, host: PurgeHost) -> None:
        host.make(**CORE, **OFF)
        host.write(replace(host.notes(), status="building"))
        host.guest("my machine")
        mine, web1 = (result.as_result() for result in MachineExports(host.conn).results(None))
        assert (mine["entry"], web1["entry"]) == (None, None)
        assert mine["msg"].startswith("name: 'my machine' is not a name")
        assert web1["msg"] == "web1 is being created, or the run that created it was interrupted"


def placed(machine: Machine, targets: dict[str, str]) -> list[Placed]:
    return [
        Placed(disk, targets[disk.name], None if disk.source is None else DiskSource("file", disk.source), "raw")
        for disk in machine.disks
    ]


PATHS = st.from_regex(r"/[a-z]{1,8}/[a-z]{1,8}\.img", fullmatch=True)
DISKS = names(
    st.fixed_dictionaries(
        {"source": PATHS, "format": st.just("raw")},
        optional={
            "model": st.sampled_from(["virtio", "scsi", "sata"]),
            "cache": st.sampled_from(["none", "writeback"]),
            "readonly": st.booleans(),
            "serial": st.sampled_from(["A1", "B2"]),
        },
    )
)
SPECS = st.fixed_dictionaries(
    {"vcpus": strategies.of_field(HARDWARE[0]), "memory": st.integers(64, 4096)},
    optional={
        **{field.key: strategies.of_field(field) for field in HARDWARE if field.key not in ("vcpus", "memory")},
        "disks": DISKS,
        "nics": names(NIC),
        "title": st.sampled_from(["a", "<b>&{{ c }}"]),
        "tags": st.lists(strategies.NAMES, max_size=2),
        "autostart": st.booleans(),
    },
)


@pytest.fixture(scope="module")
def conn() -> Iterator[t.Any]:
    with open_connection("test:///default") as conn:
        yield conn


@given(spec=SPECS)
@settings(
    max_examples=settings().max_examples,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture],
)
def test_what_is_made_of_any_description(conn: t.Any, spec: dict[str, t.Any]) -> None:
    spec = {"name": "web1", "disk_profile": "none", "nic_profile": "none", **OFF, **spec}
    try:
        machine = read_machine(spec)
        platform = GuestPlatforms(conn).platform(machine)
    except VirtError:
        assume(False)
    targets = disk_targets(machine.disks)
    notes = MachineNotes(
        disks=tuple(DiskNote(disk.name, targets[disk.name]) for disk in machine.disks),
        nics=tuple(NicNote(nic.name, nic.mac, nic.addresses) for nic in machine.nics),
        tags=machine.tags or (),
    )
    text = domain_xml(
        machine, notes=notes, host=platform, disks=placed(machine, targets), seed=None, uuid=str(uuid.UUID(int=7))
    )
    try:
        handle = conn.defineXML(text)
    except libvirt.libvirtError:
        # By chance it is what libvirt refuses.
        assume(False)
    handle.setAutostart(bool(machine.autostart))
    entry, missing = exported(conn)
    # What cannot be in it are secrets, and what libvirt makes of a description beyond its own words.
    again = read_machine(entry)
    made = domain_xml(
        again, notes=notes, host=platform, disks=placed(again, targets), seed=None, uuid=str(uuid.UUID(int=7))
    )
    libvirts = parse_xml(handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    conn.defineXML(made)
    twin = parse_xml(handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    differences = set(find_leftovers(libvirts, twin))
    assert differences <= set(missing), (entry, missing)
