# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Raw disks whose guests wrote another format's header into them: real bytes, and libvirt's test driver.

The driver looks into no file. What libvirt itself would say of each, its format and its size, is told to it.
"""

from __future__ import annotations

import dataclasses
import functools
import shutil
import struct
import subprocess
import typing as t
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.plugins.module_utils._host.storage import pools
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    DiskNote,
    MachineNotes,
    VolumeNote,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans, run_plans
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.metadata.notes_text import notes_to_xml

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")

MIB = 1024 * 1024
NAME = "web1-data.raw"
SECRET = b"secret " * 1000
# How a guest makes its header, and the size that libvirt then takes the disk for.
ATTACKS = {
    "data file": (("-o", "data_file=../secret,data_file_raw=on", "header", "1M"), MIB),
    "backing file": (("-b", "../secret", "-F", "raw", "header"), 7168),
    "64 TiB": (("header", "64T"), 1 << 46),
}
attacks = pytest.mark.parametrize("attack", ATTACKS)


@dataclass
class Host:
    """A hypervisor with a pool in a real directory, and a file beside it that is none of its guests' business."""

    root: Path
    stack: ExitStack
    disks: str = ""
    notes: MachineNotes | None = None
    libvirt_says: tuple[str, int] = ("raw", 64 * MIB)
    more_volumes: str = ""

    @property
    def pool(self) -> Path:
        return self.root / "default"

    @property
    def secret(self) -> Path:
        return self.root / "secret"

    def attack(self, what: str) -> bytes:
        """The guest writes its header into its disk. Gives back what it wrote."""
        options, size = ATTACKS[what]
        self.secret.write_bytes(SECRET)
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *options], cwd=self.pool, check=True)
        header = (self.pool / "header").read_bytes()
        (self.pool / "header").unlink()
        self.secret.write_bytes(SECRET)
        with (self.pool / NAME).open("r+b") as disk:
            disk.write(header)
        self.libvirt_says = ("qcow2", size)
        return header

    def plan(self, **machine: t.Any) -> MachinePlan:
        """What a task would do to web1."""
        return make_plans([read_machine({**BASE, **machine})], self.hypervisor, "")[0]

    @functools.cached_property
    def conn(self) -> t.Any:
        """libvirt, which knows what there is when it is first asked for."""
        file = self.root / "node.xml"
        file.write_text(self.xml(), encoding="utf-8")
        conn = self.stack.enter_context(open_connection(f"test://{file}"))
        for domain in conn.listAllDomains():
            domain.destroy()
        return conn

    @property
    def hypervisor(self) -> Hypervisor:
        """The hypervisor as a new task sees it."""
        return Hypervisor(self.conn, image_pool="default")

    def xml(self) -> str:
        image_format, size = self.libvirt_says
        domain = ""
        if self.disks or self.notes:
            domain = (
                "<domain type='test'><name>web1</name><uuid>11111111-1111-1111-1111-111111111111</uuid><metadata>"
                f"{notes_to_xml(self.notes or MachineNotes())}</metadata><memory unit='MiB'>128</memory><vcpu>1</vcpu>"
                f"<os><type>hvm</type></os><devices>{self.disks}</devices></domain>"
            )
        volume = _volume(NAME, image_format, size) if (self.pool / NAME).exists() else ""
        path = f"<target><path>{self.pool}</path></target>"
        pool = f"<pool type='dir'><name>default</name>{path}{volume}{self.more_volumes}</pool>"
        return f"<node>{domain}{pool}</node>"

    def formats(self) -> list[str]:
        """What web1 takes its disks for."""
        xml = parse_xml(self.conn.lookupByName("web1").XMLDesc(2))
        return [driver.get("type", "") for driver in xml.iterfind("devices/disk/driver")]

    def must_be_safe(self) -> None:
        assert self.secret.read_bytes() == SECRET


def _volume(name: str, image_format: str, size: int) -> str:
    target = f"<target><format type='{image_format}'/></target>"
    return f"<volume><name>{name}</name><capacity>{size}</capacity>{target}</volume>"


BASE: dict[str, t.Any] = {
    "name": "web1",
    "vcpus": 1,
    "memory": 128,
    "seed": {"method": "none"},
    "start": False,
    "disk_profile": "none",
    "nic_profile": "none",
    "disks": [{"name": "data", "pool": "default", "format": "raw", "size": 64}],
}
OLD_NOTE = VolumeNote("default", NAME, "disk")
NOTE = VolumeNote("default", NAME, "disk", format="raw")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A hypervisor without machines, with a raw disk of 64 MiB in its pool."""
    # The pool of the test driver counts as one of this machine.
    monkeypatch.setattr(pools, "is_local", lambda _uri: True)
    with ExitStack() as stack:
        here = Host(tmp_path, stack)
        here.pool.mkdir()
        here.secret.write_bytes(SECRET)
        with (here.pool / NAME).open("wb") as disk:
            disk.truncate(64 * MIB)
        yield here


def with_disk(host: Host) -> Host:
    """The machine has the disk."""
    path = host.pool / NAME
    host.disks = (
        f"<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{path}'/>"
        "<target dev='vda' bus='virtio'/></disk>"
    )
    host.notes = MachineNotes(volumes=(OLD_NOTE,), disks=(DiskNote("data", "vda"),))
    return host


@attacks
def test_the_same_task_changes_nothing(host: Host, attack: str) -> None:
    with_disk(host).attack(attack)
    plan = host.plan()
    assert not plan.steps, [step.description for step in plan.steps]


@attacks
def test_a_larger_size_grows_the_file_and_nothing_in_it(host: Host, attack: str) -> None:
    header = with_disk(host).attack(attack)
    outcome = run_plans(
        [host.plan(disks=[{"name": "data", "pool": "default", "format": "raw", "size": 128}])], concurrency=1
    )[0]
    assert (outcome.error, outcome.actions) == (None, ["grow disk data of web1 to 128 MiB"])
    disk = host.pool / NAME
    assert disk.stat().st_size == 128 * MIB
    assert disk.read_bytes()[: len(header)] == header
    host.must_be_safe()


@attacks
@pytest.mark.parametrize("note", [NOTE, OLD_NOTE], ids=["noted", "of an older version"])
def test_a_disk_that_was_detached_is_attached_as_before(host: Host, attack: str, note: VolumeNote) -> None:
    host.attack(attack)
    host.notes = MachineNotes(volumes=(note,), disks=(DiskNote("data", "vda"),))
    outcome = run_plans([host.plan()], concurrency=1)[0]
    assert outcome.error is None
    assert host.formats() == ["raw"]
    assert not host.plan().steps


def refused(host: Host, **disk: t.Any) -> str:
    with pytest.raises(ConflictError) as caught:
        host.plan(disks=[{"name": "data", "pool": "default", **disk}])
    return str(caught.value)


@attacks
def test_a_raw_disk_of_nobody_is_never_taken_for_an_overlay(host: Host, attack: str) -> None:
    host.attack(attack)
    for origin in ({"source": NAME}, {"source": str(host.pool / NAME)}, {"backing": NAME}):
        place, words = ("source", origin["source"]) if "source" in origin else ("backing", NAME)
        message = refused(host, **origin)
        assert message.startswith(f"disks[0].{place}: volume {NAME} of pool default is raw by its name"), words
        assert "Choose with format: raw or format: qcow2" in message
    plan = host.plan(disks=[{"name": "data", "pool": "default", "source": NAME, "format": "raw"}])
    assert run_plans([plan], concurrency=1)[0].error is None
    assert host.formats() == ["raw"]


def test_on_a_raw_disk_that_its_notes_know_an_overlay_is_one_on_a_raw_disk(host: Host) -> None:
    host.attack("backing file")
    host.notes = MachineNotes(volumes=(NOTE,))
    overlay = {"name": "data", "pool": "default", "backing": NAME}
    plan = host.plan(name="web2", disks=[overlay])
    assert run_plans([plan], concurrency=1)[0].error is None
    pool = host.hypervisor.pools.get("default")
    made = parse_xml(pool.handle.storageVolLookupByName("web2-data.qcow2").XMLDesc(0))
    backing = made.find("backingStore/format")
    assert backing is not None
    assert backing.get("type") == "raw"


def outside(host: Host, name: str, *options: str) -> None:
    """A volume from elsewhere, and libvirt's word for it."""
    (host.pool / NAME).unlink(missing_ok=True)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *options], cwd=host.pool, check=True)
    host.more_volumes += _volume(name, "qcow2", MIB)


@pytest.mark.parametrize("origin", ["source", "backing"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("-b", "../secret", "-F", "raw", "x.qcow2"),
            "backed by ../secret, which is not a volume of a storage pool here",
        ),
        (("-b", "nbd://127.0.0.1:1/x", "-F", "raw", "-u", "x.qcow2", "1M"), "backed by nbd://127.0.0.1:1/x, which is"),
        (("-b", 'json:{"file.filename": "x"}', "-F", "raw", "-u", "x.qcow2", "1M"), "backed by json:"),
        (
            ("-b", "missing.qcow2", "-F", "qcow2", "-u", "x.qcow2", "1M"),
            "backed by missing.qcow2, which is not a volume",
        ),
        (("-o", "data_file=data", "x.qcow2", "1M"), "is a qcow2 image that has its data in another file"),
    ],
)
def test_a_volume_from_elsewhere_leads_nowhere_else(
    host: Host, origin: str, options: tuple[str, ...], words: str
) -> None:
    outside(host, "x.qcow2", *options)
    assert words in refused(host, **{origin: "x.qcow2"})


def test_a_chain_of_volumes_is_followed_to_its_end(host: Host) -> None:
    outside(host, "base.qcow2", "base.qcow2", "1M")
    outside(host, "middle.qcow2", "-b", "base.qcow2", "-F", "qcow2", "middle.qcow2")
    outside(host, "top.qcow2", "-b", "middle.qcow2", "-F", "qcow2", "top.qcow2")
    outside(host, "top.img", "-b", "middle.qcow2", "-F", "qcow2", "top.img")
    outside(host, "far.qcow2", "-b", "../secret", "-F", "raw", "far.qcow2")
    outside(host, "over-far.qcow2", "-b", "far.qcow2", "-F", "qcow2", "over-far.qcow2")
    assert "volume far.qcow2 is backed by ../secret" in refused(host, source="over-far.qcow2")
    # Bytes alone never lead from one file to another.
    assert "looks like an overlay on middle.qcow2. If it is one, set format: qcow2" in refused(host, source="top.img")
    disks = [
        {"name": "named", "pool": "default", "source": "top.qcow2"},
        {"name": "said", "pool": "default", "source": "top.img", "format": "qcow2"},
    ]
    assert run_plans([host.plan(disks=disks)], concurrency=1)[0].error is None
    assert host.formats() == ["qcow2", "qcow2"]


def test_a_chain_without_formats_is_refused(host: Host) -> None:
    outside(host, "base.qcow2", "base.qcow2", "1M")
    outside(host, "old.qcow2", "-b", "base.qcow2", "-F", "qcow2", "old.qcow2")
    content = bytearray((host.pool / "old.qcow2").read_bytes())
    # The extension that names the backing file's format becomes an unknown one.
    position = content.index(struct.pack(">I", 0xE2792ACA))
    content[position : position + 4] = b"none"
    (host.pool / "old.qcow2").write_bytes(content)
    assert "does not record the format of base.qcow2" in refused(host, source="old.qcow2")


def test_a_header_writes_nothing_into_a_command_that_is_shown(host: Host) -> None:
    """A guest may have written it into a raw disk, and root copies the command."""
    outside(host, "a;reboot", "a;reboot", "1M")
    outside(host, "old.qcow2", "-b", "a;reboot", "-F", "qcow2", "old.qcow2")
    content = bytearray((host.pool / "old.qcow2").read_bytes())
    position = content.index(struct.pack(">I", 0xE2792ACA))
    content[position : position + 4] = b"none"
    (host.pool / "old.qcow2").write_bytes(content)
    assert f"-F FORMAT -b 'a;reboot' {host.pool}/old.qcow2" in refused(host, source="old.qcow2")


def test_a_chain_without_end_is_refused(host: Host) -> None:
    for name, other in (("one.qcow2", "two.qcow2"), ("two.qcow2", "one.qcow2")):
        outside(host, name, "-u", "-b", other, "-F", "qcow2", name, "1M")
    assert "does not end" in refused(host, source="one.qcow2")


@pytest.mark.parametrize(("made", "word"), [("vmdk", "a vmdk image"), ("vpc", "a vpc image")])
def test_other_formats_are_not_guessed(host: Host, made: str, word: str) -> None:
    subprocess.run(["qemu-img", "create", "-q", "-f", made, "x.img", "1M"], cwd=host.pool, check=True)
    host.more_volumes = _volume("x.img", made, MIB)
    assert word in refused(host, source="x.img")
    assert "should be qcow2, but looks like" in refused(host, source="x.img", format="qcow2")
    host.plan(disks=[{"name": "data", "pool": "default", "source": "x.img", "format": "raw"}])


def test_a_disk_that_a_guest_has_encrypted_is_raw(host: Host) -> None:
    (host.pool / "x.img").write_bytes(b"LUKS\xba\xbe" + bytes(MIB))
    host.more_volumes = _volume("x.img", "raw", MIB)
    assert run_plans([host.plan(disks=[{"name": "d", "pool": "default", "source": "x.img"}])], concurrency=1)
    assert host.formats() == ["raw"]


def test_what_is_made_is_noted_with_its_format(host: Host) -> None:
    (host.pool / NAME).unlink()
    assert run_plans([host.plan()], concurrency=1)[0].error is None
    notes = list_domains(host.conn)["web1"].notes
    assert notes is not None
    assert [dataclasses.replace(note, identity="") for note in notes.volumes] == [NOTE]
