# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The serial numbers of LUNs."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.storage import volume_facts
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volume_facts import device_serial, volume_serial

OURS = "36001405" + "a" * 25


@pytest.mark.parametrize(
    ("kind", "key", "serial"),
    [
        ("iscsi", "36001405aa", "36001405aa"),
        # By a virtual adapter of Fibre Channel.
        ("scsi", "36001405aa_PORT1", "36001405aa"),
        ("scsi", "36001405aa_PORT", "36001405aa"),
        ("scsi", "/dev/disk/by-path/pci-lun-1", None),
        # Of a file, libvirt's key is something else.
        ("dir", "36001405aa", None),
    ],
)
def test_the_serial_number_that_libvirt_has(kind: str, key: str, serial: str | None) -> None:
    volume: t.Any = type("Volume", (), {"key": lambda _self: key})()
    handle: t.Any = type("Handle", (), {"storageVolLookupByName": lambda _self, _name: volume})()
    assert volume_serial(Pool("san", "/dev", 0, handle, type=kind), "unit:0:0:1") == serial


def test_multipath_for_which_libvirt_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tmp_path / "dm-3"
    device.touch()
    (tmp_path / "dm-uuid-mpath-3600").symlink_to(device)
    monkeypatch.setattr(volume_facts, "_MULTIPATH", f"{tmp_path}/dm-uuid-mpath-")
    volume: t.Any = type("Volume", (), {"key": lambda _self: str(device), "path": lambda _self: str(device)})()
    handle: t.Any = type("Handle", (), {"storageVolLookupByName": lambda _self, _name: volume})()
    assert volume_serial(Pool("mp", "/dev/mapper", 0, handle, type="mpath", local=True), "dm-3") == "3600"
    assert volume_serial(Pool("mp", "/dev/mapper", 0, handle, type="mpath"), "dm-3") is None


@pytest.mark.parametrize(
    ("names", "serial"),
    [
        ([f"scsi-{OURS}", "scsi-SLIO-ORG_data", f"wwn-0x{OURS[1:]}"], OURS),
        ([f"scsi-{OURS}-part1"], OURS),
        ([f"scsi-{OURS}", f"dm-uuid-mpath-{OURS}", "dm-name-mpatha"], OURS),
        ([f"dm-uuid-part2-mpath-{OURS}"], OURS),
        # Of a logical volume of a group that several hosts see.
        (["dm-uuid-LVM-8jYp", "dm-name-vg-db"], "LVM-8jYp"),
        (["virtio-0123"], "0123"),
        (["dm-name-vg-db", "lvm-pv-uuid-8jYp"], None),
        # With the name that this host has for it.
        (["dm-name-secret", "dm-uuid-CRYPT-LUKS2-0123-secret"], None),
        ([], None),
    ],
)
def test_what_a_device_is_known_by(
    names: list[str], serial: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "sdx"
    device.touch()
    (tmp_path / "by-id").mkdir()
    for name in names:
        (tmp_path / "by-id" / name).symlink_to(device)
    (tmp_path / "by-id" / "scsi-another").symlink_to(tmp_path)
    monkeypatch.setattr(volume_facts, "_BY_ID", str(tmp_path / "by-id"))
    assert device_serial(str(device)) == serial
