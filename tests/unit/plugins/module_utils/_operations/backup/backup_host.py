# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is off, on libvirt's test driver, with a real image; and the directory for its backups."""

from __future__ import annotations

import dataclasses
import subprocess
import threading
import typing as t
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressFile
from ansible_collections.brine.virt.plugins.module_utils._host.storage.proof import mark_volume
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    DiskNote,
    MachineNotes,
    VolumeNote,
    notes_to_element,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.backup import machines, make, plan
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.machines import back_up
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.options import BackupOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.result import BackupResult
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import MACHINE, Host

# The test driver says this of every disk.
SIZE = 1099506450432
UUID = str(uuid5(NAMESPACE_DNS, "web1"))
DISK = (
    "<disk type='file' device='{device}'><driver name='qemu' type='{format}'/><source file='{path}'/>"
    "<target dev='{target}' bus='virtio'/>{rest}</disk>"
)


class BackupHost:
    """The hypervisor, the directory, and one machine web1 with a disk."""

    def __init__(self, host: Host, tmp_path: Path) -> None:
        self.host = host
        self.conn = host.conn
        self.destination = tmp_path / "backup"
        self.destination.mkdir()
        self.options = BackupOptions(str(self.destination), lock_seconds=0)
        self.image = host.directory / "default" / "web1-system.qcow2"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(self.image), str(SIZE)], check=True)
        host.know(self.image.name)
        self.identity = ""
        self.write(0, 1)
        self.define()

    def write(self, offset: int, pattern: int) -> None:
        """As the guest would."""
        subprocess.run(
            ["qemu-io", "-f", "qcow2", "-c", f"write -P {pattern} {offset} 65536", str(self.image)],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def define(self, more: str = "", *, image_format: str = "qcow2", rest: str = "", name: str = "web1") -> t.Any:
        notes = MachineNotes(
            volumes=(VolumeNote("default", self.image.name, "disk", format="qcow2", identity=self.identity),),
            disks=(DiskNote("system", "vda"),),
            tags=("front",),
        )
        disk = self.disk("vda", str(self.image), image_format, rest=rest)
        text = etree.tostring(notes_to_element(notes), encoding="unicode")
        uuid = str(uuid5(NAMESPACE_DNS, name))
        return self.conn.defineXML(MACHINE.format(name=name, uuid=uuid, devices=disk + more, notes=text))

    def mark(self) -> None:
        """Have its volume say whose it is, as one that virt_init has made."""
        self.identity = "made"
        volume = self.conn.storagePoolLookupByName("default").storageVolLookupByName(self.image.name)
        mark_volume(Hypervisor(self.conn, image_pool="images").pools.get("default"), volume, "qcow2", self.identity)
        self.define()

    def define_other(self, path: str) -> None:
        """A machine other with this file as its disk."""
        uuid = str(uuid5(NAMESPACE_DNS, "other"))
        disk = self.disk("vda", path)
        self.conn.defineXML(MACHINE.format(name="other", uuid=uuid, devices=disk, notes=""))

    @staticmethod
    def disk(target: str, path: str, image_format: str = "qcow2", *, device: str = "disk", rest: str = "") -> str:
        return DISK.format(device=device, format=image_format, path=path, target=target, rest=rest)

    def start(self, monkeypatch: pytest.MonkeyPatch, written: dict[str, int] | None) -> None:
        """The machine runs, on a driver that has checkpoints, but no backups; QEMU's part of one is played.

        written: the bytes that each disk has been written since the checkpoint; None as if QEMU did not know.
        """
        monkeypatch.setattr(machines, "end_job_of_killed_run", lambda *_what: None)
        monkeypatch.setattr(machines, "left_job", lambda *_what: False)
        monkeypatch.setattr(plan, "sizes_since", lambda *_what: written)

        def run_backup(_conn: t.Any, handle: t.Any, xml: str, checkpoint: str | None, *more: t.Any) -> None:
            for disk in parse_xml(xml).iterfind("disks/disk/target"):
                path = disk.get("file", "")
                subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, str(SIZE)], check=True)
            if checkpoint:
                handle.checkpointCreateXML(checkpoint, 0)
            more[-1]()

        monkeypatch.setattr(make, "run_backup", run_backup)
        self.options = dataclasses.replace(self.options, quiesce="false")
        self.conn.lookupByName("web1").create()

    def back_up(self, *names: str, **options: t.Any) -> list[BackupResult]:
        chosen = dataclasses.replace(self.options, **options)
        return back_up(self.conn, names or ("web1",), chosen, threading.Event(), ProgressFile(None))

    def made(self, **options: t.Any) -> BackupResult:
        (result,) = self.back_up(**options)
        assert result.error is None, str(result.error)
        return result
