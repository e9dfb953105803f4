# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a device is another LUN than it seems, and whether this host itself uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.storage import volume_facts
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes import devices

OURS, OTHER = "36001405" + "a" * 25, "36001405" + "b" * 25


class Devices:
    """A folder with devices, their names, and what sysfs says of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("by-id", "sys"):
            (directory / name).mkdir()

    def add(self, name: str, *by_id: str) -> str:
        device = self.directory / name
        device.touch()
        for link in by_id:
            (self.directory / "by-id" / link).symlink_to(device)
        return str(device)

    def hold(self, name: str, holder: str, uuid: str = "") -> None:
        (self.directory / "sys" / name / "holders" / holder).mkdir(parents=True)
        if uuid:
            (self.directory / "sys" / holder / "dm").mkdir(parents=True)
            (self.directory / "sys" / holder / "dm" / "uuid").write_text(f"{uuid}\n")

    def split(self, name: str, part: str) -> str:
        """A partition, which sysfs has inside its device, and a link to it beside that."""
        (self.directory / "sys" / name / part).mkdir(parents=True)
        (self.directory / "sys" / part).symlink_to(f"{name}/{part}")
        return self.add(part)


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Devices:
    monkeypatch.setattr(volume_facts, "_BY_ID", str(tmp_path / "by-id"))
    monkeypatch.setattr(devices, "_SYSFS", str(tmp_path / "sys"))
    return Devices(tmp_path)


@pytest.mark.parametrize(
    ("names", "other"),
    [
        ([f"scsi-{OTHER}"], True),
        ([f"scsi-{OTHER}-part1"], True),
        ([f"scsi-{OURS}"], False),
        # The numbers of tgt are by target and LUN, and given again when it is started.
        (["scsi-360000000000000000e00000000020001"], False),
        (["scsi-1IET_00020001"], False),
        ([], False),
    ],
)
def test_a_device_that_is_another_lun(found: Devices, names: list[str], other: bool) -> None:
    assert devices.is_other_unit(found.add("sdx", *names), OURS) is other
    assert not devices.is_other_unit(str(found.directory / "sdx"), None)


def test_a_path_of_multipath_whose_names_are_those_of_the_map(found: Devices) -> None:
    device = found.add("sdx")
    found.hold("sdx", "dm-0", f"mpath-{OTHER}")
    assert devices.is_other_unit(device, OURS)
    assert not devices.is_other_unit(device, OTHER)


def test_a_partition_of_a_path_whose_names_are_those_of_the_map(found: Devices) -> None:
    found.hold("sdx", "dm-0", f"mpath-{OTHER}")
    part = found.split("sdx", "sdx1")
    assert devices.is_other_unit(part, OURS)
    assert not devices.is_other_unit(part, OTHER)


@pytest.mark.parametrize(
    ("held", "busy", "used"),
    [
        # The kernel lets nobody open a partition exclusively while a map has the whole device.
        ([("sdx", "dm-0", "mpath-3600"), ("dm-0", "dm-1", "part1-mpath-3600")], ["sdx", "sdx1", "dm-0"], False),
        ([("sdx", "dm-0", "mpath-3600"), ("dm-0", "dm-1", "part1-mpath-3600")], ["sdx", "sdx1", "dm-0", "dm-1"], True),
        ([("sdx", "dm-2", "LVM-8jYp")], ["sdx", "sdx1"], True),
        ([("sdx1", "dm-2", "LVM-8jYp")], ["sdx", "sdx1"], True),
        # Mounted.
        ([], ["sdx", "sdx1"], True),
        # Another partition is, or is in LVM.
        ([], ["sdx"], False),
        ([("sdx2", "dm-2", "LVM-8jYp")], ["sdx", "sdx2"], False),
    ],
)
def test_whether_the_host_uses_a_partition(
    found: Devices,
    held: list[tuple[str, str, str]],
    busy: list[str],
    used: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = [found.split("sdx", name) for name in ("sdx1", "sdx2")]
    for name, holder, uuid in held:
        found.hold(name, holder, uuid)
    monkeypatch.setattr(devices, "is_busy", lambda device: Path(device).name in busy)
    assert devices.is_used_by_host(parts[0]) is used


@pytest.mark.parametrize(
    ("held", "busy", "used"),
    [
        # A map of multipath alone, with a partition, leads to nothing that is in use.
        ([("sdx", "dm-0", "mpath-3600")], ["sdx"], False),
        ([("sdx", "dm-0", "mpath-3600"), ("dm-0", "dm-1", "part1-mpath-3600")], ["sdx", "dm-0"], False),
        ([("sdx", "dm-0", "mpath-3600")], ["sdx", "dm-0"], True),
        ([("sdx", "dm-0", "mpath-3600"), ("dm-0", "dm-1", "part1-mpath-3600")], ["sdx", "dm-0", "dm-1"], True),
        ([("sdx", "dm-0", "mpath-3600"), ("dm-0", "dm-2", "LVM-8jYp")], ["sdx", "dm-0"], True),
        ([("sdx", "dm-2", "LVM-8jYp")], ["sdx"], True),
        ([("sdx", "md0", "")], ["sdx"], True),
        # Mounted.
        ([], ["sdx"], True),
        ([], [], False),
    ],
)
def test_what_the_host_itself_uses(
    found: Devices,
    held: list[tuple[str, str, str]],
    busy: list[str],
    used: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = found.add("sdx")
    for name, holder, uuid in held:
        found.hold(name, holder, uuid)
    monkeypatch.setattr(devices, "is_busy", lambda device: Path(device).name in busy)
    assert devices.is_used_by_host(path) is used
