# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a LUN is called on each host."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes import units


def test_all_that_leads_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "_BY_ID", str(tmp_path))
    names = {"scsi-3600", "scsi-3600-part1", "dm-uuid-mpath-3600"}
    for name in (*names, "scsi-36001", "scsi-13600", "wwn-0x600"):
        (tmp_path / name).touch()
    assert {Path(path).name for path in units.unit_paths("3600")} == names
    assert units.unit_paths("*") == []


@pytest.mark.parametrize(
    ("path", "same"),
    [
        ("/dev/disk/by-path/ip-192.0.2.9:3260-iscsi-iqn.x-lun-1", True),
        ("/dev/disk/by-id/wwn-0x600", True),
        # By the slot that the host's own adapter is in.
        ("/dev/disk/by-path/pci-0000:00:05.0-fc-0x5-lun-1", False),
        ("/dev/sdb", False),
        ("/dev/mapper/mpatha", False),
    ],
)
def test_paths_that_every_host_has(path: str, same: bool) -> None:
    assert units.is_same_everywhere(path) is same


def test_a_lun_by_its_target_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "_BY_PATH", f"{tmp_path}/")
    names = {f"ip-192.0.2.{host}:3260-iscsi-iqn.x:a-lun-1{part}" for host in (8, 9) for part in ("", "-part2")}
    for name in (*names, "ip-192.0.2.9:3260-iscsi-iqn.x:a-lun-10", "ip-192.0.2.9:3260-iscsi-iqn.x:ab-lun-1"):
        (tmp_path / name).touch()
    assert {Path(path).name for path in units.portal_paths("iscsi:iqn.x:a/1")} == names
    assert units.portal_paths("rbd:vms/a") == []
    for name in names:
        assert units.iscsi_place(f"/dev/disk/by-path/{name}") == "iscsi:iqn.x:a/1"
    assert units.iscsi_place("/dev/sdb") == "/dev/sdb"


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("36001405" + "a" * 25, "36001405" + "b" * 25, True),
        ("36001405" + "a" * 25, "36001405" + "a" * 25, False),
        ("350014051234567ab", "350014051234567ac", True),
        # Two kinds of number may be of one LUN.
        ("36001405" + "a" * 25, "350014051234567ac", False),
        # Those of tgt, of a maker of its own, and one that is nobody's.
        ("360000000000000000e00000000010001", "360000000000000000e00000000020001", False),
        ("1IET_00010001", "1IET_00020001", False),
        ("33333333000000000", "33333333000000001", False),
        (None, "36001405" + "b" * 25, False),
    ],
)
def test_numbers_that_say_that_two_luns_are_meant(one: str | None, other: str | None, differ: bool) -> None:
    assert [units.differ(*pair) for pair in ((one, other), (other, one))] == [differ, differ]


def test_where_the_kernel_shows_a_volume_of_ceph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "_RBD", str(tmp_path))
    (tmp_path / "vms").mkdir()
    for name in ("db", "db-part1", "db2-part1"):
        (tmp_path / "vms" / name).touch()
    assert units.rbd_paths("rbd:vms/db") == [f"{tmp_path}/vms/db", f"{tmp_path}/vms/db-part1"]
    assert units.rbd_paths("rbd:vms/none") == [f"{tmp_path}/vms/none"]
