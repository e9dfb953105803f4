# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor whose pool is a real directory: libvirt's test driver, and qemu-img in the place of the daemon."""

from __future__ import annotations

import hashlib
import subprocess
import types
import typing as t
from pathlib import Path

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, need, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains, write_notes
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans, run_plans
from ansible_collections.brine.virt.plugins.modules import virt_purge
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volume_files import MAKE

SPEC: dict[str, t.Any] = {
    "name": "web1",
    "vcpus": 1,
    "memory": 128,
    "seed": {"method": "none"},
    "start": False,
    "nic_profile": "none",
    "disks": [{"name": "system", "size": 64}],
}
GUEST = """
<domain type='test'><name>{name}</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>
<devices>{devices}</devices></domain>
"""
DISK = """
<disk type='file' device='{device}'><driver type='{format}'/><source file='{path}'/><target dev='{target}'/></disk>
"""
POOL = "<pool type='dir'><name>{}</name><target><path>{}</path></target></pool>"


def disk(path: Path, target: str = "vda", *, device: str = "disk", image_format: str = "qcow2") -> str:
    return DISK.format(path=path, target=target, device=device, format=image_format)


class PurgeHost:
    """pool: the directory of the pool default. outside: one that is in no pool."""

    def __init__(self, conn: t.Any, directory: Path) -> None:
        self.conn = conn
        self.pool = directory / "pool"
        self.outside = directory / "outside"
        self.outside.mkdir()
        self.handle = conn.storagePoolLookupByName("default")

    def make(self, **changes: t.Any) -> t.Any:
        """A machine of ours."""
        spec = {**SPEC, **changes}
        plans = make_plans([read_machine(spec)], Hypervisor(self.conn, image_pool="default"), "")
        error = run_plans(plans, concurrency=1)[0].error
        assert error is None, str(error)
        return self.conn.lookupByName(spec["name"])

    def guest(self, name: str, *devices: str) -> t.Any:
        """A machine of somebody else."""
        return self.conn.defineXML(GUEST.format(name=name, devices="".join(devices)))

    def attach(self, name: str, *devices: str) -> t.Any:
        """A machine with more disks, which has to be off."""
        xml = self.conn.lookupByName(name).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        return self.conn.defineXML(xml.replace("</devices>", f"{''.join(devices)}</devices>"))

    def detach(self, name: str, volume: str) -> None:
        """The machine, which has to be off, loses the disk with this file."""
        root = parse_xml(self.conn.lookupByName(name).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        devices = need(root, "devices")
        for element in devices.findall("disk"):
            if need(element, "source").get("file", "").endswith(f"/{volume}"):
                devices.remove(element)
        self.conn.defineXML(etree.tostring(root, encoding="unicode"))

    def image(self, path: Path, *, below: Path | None = None) -> Path:
        """An image with something in it; in the pool, a volume."""
        backing = ["-b", str(below), "-F", "qcow2"] if below else []
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *backing, str(path), "64M"], check=True)
        with path.open("ab") as content:
            content.write(b"what somebody needs" * 1000)
        if path.parent == self.pool and path.name not in self.handle.listVolumes():
            MAKE(self.handle, f"<volume><name>{path.name}</name><capacity>67108864</capacity></volume>")
        return path

    def notes(self, name: str = "web1") -> MachineNotes:
        notes = list_domains(self.conn)[name].notes
        assert notes is not None
        return notes

    def write(self, notes: MachineNotes, name: str = "web1") -> None:
        write_notes(self.conn.lookupByName(name), notes)

    def names(self) -> set[str]:
        return set(list_domains(self.conn))

    def files(self) -> dict[str, str]:
        """All files, with the hashes of what is in them."""
        folders = (self.pool, self.outside)
        return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for d in folders for f in d.iterdir()}

    def purge(self, *names: str, check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
        """What the module returns, or fails with."""
        given = {name: argument.get("default") for name, argument in virt_purge.ARGUMENTS.items()}
        failures: list[dict[str, t.Any]] = []
        module = types.SimpleNamespace(
            params={"uri": "", PROGRESS_FILE: None, **given, "name": list(names) or ["web1"], **params},
            check_mode=check_mode,
            fail_json=lambda **result: failures.append({**result, "failed": True}),
        )
        answer = virt_purge.work(t.cast("t.Any", module))
        return failures[0] if failures else {**answer, "failed": False}

    def one(self, **params: t.Any) -> dict[str, t.Any]:
        """What becomes of the machine: in check mode first, which changes nothing and says the same."""
        before = (self.files(), {name: self.conn.lookupByName(name).XMLDesc(0) for name in self.names()})
        ahead = self.purge(**params, check_mode=True)["machines"][0]
        assert before == (self.files(), {name: self.conn.lookupByName(name).XMLDesc(0) for name in self.names()})
        result: dict[str, t.Any] = self.purge(**params)["machines"][0]
        assert result == ahead, (result, ahead)
        return result


def decided(result: dict[str, t.Any]) -> dict[str, str]:
    """The reason for each volume, after its action."""
    return {volume["volume"]: f"{volume['action']}: {volume['reason']}" for volume in result["volumes"]}
