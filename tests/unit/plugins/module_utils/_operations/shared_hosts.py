# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real image files in pools of libvirt's test driver, and machines with disks on them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import typing as t
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machines
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans, run_plans
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes.answers import read_used_elsewhere

POOL = "<pool type='dir'><name>{name}</name><target><path>{path}</path></target></pool>"
VOLUME = "<volume><name>{name}</name><capacity>1048576</capacity><target><format type='qcow2'/></target></volume>"
MACHINE = """
<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory><os><type>hvm</type></os>
<metadata>{notes}</metadata><devices>{devices}</devices></domain>
"""
DISK = (
    "<disk type='file' device='{device}'><driver type='qcow2'/><source file='{path}'/><target dev='vda'/>{rest}</disk>"
)
BASE: dict[str, t.Any] = {"vcpus": 1, "memory": 64, "seed": {"method": "none"}, "disk_profile": "none",
                          "nic_profile": "none", "start": False}  # fmt: skip
IMAGE = "tiny-0123456789abcdef.qcow2"
SHARE = "Two machines may share it only if both are shareable or readonly"


class Disks:
    """A disk of a machine, by what it does with the volume x.qcow2 or with the image."""

    WRITE: t.ClassVar[dict[str, t.Any]] = {"source": "x.qcow2"}
    SHAREABLE: t.ClassVar[dict[str, t.Any]] = {"source": "x.qcow2", "shareable": True}
    READONLY: t.ClassVar[dict[str, t.Any]] = {"source": "x.qcow2", "readonly": True}
    CDROM: t.ClassVar[dict[str, t.Any]] = {"source": "x.qcow2", "device": "cdrom"}
    FLOPPY: t.ClassVar[dict[str, t.Any]] = {"source": "x.qcow2", "device": "floppy"}
    OVERLAY: t.ClassVar[dict[str, t.Any]] = {"backing": "x.qcow2"}
    ON_IMAGE: t.ClassVar[dict[str, t.Any]] = {"image": IMAGE}
    # By a pool of the same files that is not the image store.
    INTO_IMAGE: t.ClassVar[dict[str, t.Any]] = {"source": IMAGE, "pool": "same"}


class Host:
    """A hypervisor with the volume x.qcow2 in its pool default, and an image in its store."""

    def __init__(self, conn: t.Any, directory: Path) -> None:
        self.conn = conn
        self.directory = directory
        self.add_pool("default")
        self.add_pool("images")
        self.path = self.add_volume("x.qcow2")
        self.add_volume(IMAGE, pool="images")
        (directory / "same").symlink_to(directory / "images")
        self.add_pool("same")
        self.know(IMAGE, "same")

    def add_pool(self, name: str, path: Path | None = None, active: bool = True) -> None:
        where = path or self.directory / name
        where.mkdir(exist_ok=True)
        xml = POOL.format(name=name, path=where)
        (self.conn.storagePoolCreateXML if active else self.conn.storagePoolDefineXML)(xml, 0)

    def add_volume(self, name: str, *create: str, pool: str = "default") -> Path:
        path = self.directory / pool / name
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *create, str(path), "1M"], check=True)
        self.know(name, pool)
        return path

    def know(self, name: str, pool: str = "default") -> None:
        self.conn.storagePoolLookupByName(pool).createXML(VOLUME.format(name=name), 0)

    def add_guest(self, *, device: str = "disk", rest: str = "", has: bool = True, notes: str = "") -> t.Any:
        disk = DISK.format(path=self.path, device=device, rest=rest) if has else ""
        uuid = uuid5(NAMESPACE_DNS, "guest")
        return self.conn.defineXML(MACHINE.format(name="guest", uuid=uuid, devices=disk, notes=notes))

    def hypervisor(self, said: dict[str, t.Any] | None = None) -> Hypervisor:
        """said: what the others have said, as the option used_elsewhere has it."""
        return Hypervisor(self.conn, image_pool="images", left_elsewhere=read_used_elsewhere(said, "used_elsewhere"))

    def plan(
        self, *machines: dict[str, t.Any], where: str = "machines", hypervisor: Hypervisor | None = None
    ) -> list[MachinePlan]:
        specs = [{**BASE, **machine} for machine in machines]
        return make_plans(read_machines(specs, where=where), hypervisor or self.hypervisor(), where)

    def make(self, *machines: dict[str, t.Any]) -> None:
        for outcome in run_plans(self.plan(*machines), concurrency=1):
            assert outcome.error is None, str(outcome.error)

    def refused(self, *machines: dict[str, t.Any], hypervisor: Hypervisor | None = None) -> str:
        with pytest.raises((ConflictError, InputError)) as caught:
            self.plan(*machines, hypervisor=hypervisor)
        return str(caught.value)

    def files(self, name: str, flags: int = 2) -> list[str]:
        """The files that a machine has, by default in the definition."""
        xml = parse_xml(self.conn.lookupByName(name).XMLDesc(flags))
        return [os.path.basename(source.get("file", "")) for source in xml.iterfind("devices/disk/source")]


def one(name: str, *disks: dict[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    """A machine with disks d, e and so on."""
    return {"name": name, "disks": [{"name": "defg"[i], "pool": "default", **d} for i, d in enumerate(disks)], **more}


@contextlib.contextmanager
def open_host(directory: Path) -> t.Iterator[Host]:
    if not shutil.which("qemu-img"):
        pytest.skip("qemu-img is not installed")
    (directory / "node.xml").write_text("<node/>")
    with open_connection(f"test://{directory}/node.xml") as conn:
        yield Host(conn, directory)
