# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a LUN that another hypervisor asks about: by its serial number, whatever its name is here."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import volume_facts
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes import (
    devices,
    units,
    users,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes.volume import SharedVolume

SERIAL = "36001405" + "a" * 25
OTHER = "36001405" + "b" * 25
PLACE = "/dev/disk/by-path/ip-192.0.2.9:3260-iscsi-iqn.2026-01.org.example:san-lun-1"
NAME = "unit:0:0:1"
ASKED = SharedVolume("san", NAME, PLACE, serial=SERIAL)
NODE = """
<node>
<pool type='iscsi'><name>{pool}</name><source><host name='192.0.2.9'/><device path='iqn.x'/></source>
<target><path>/dev/disk/by-path</path></target></pool>
</node>
"""
MACHINE = """
<domain type='test'><name>web9</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>
<devices><disk type='{kind}' device='disk'><source {source}/><target dev='vda'/></disk></devices></domain>
"""


class Other:
    """A hypervisor with one iSCSI pool, and devices in a folder of its own."""

    def __init__(self, conn: t.Any, directory: Path) -> None:
        self.conn = conn
        self.by_id = directory / "by-id"
        self.by_id.mkdir()
        self.device = directory / "sdx"
        self.device.touch()

    def guest(self, kind: str, source: str) -> None:
        self.conn.defineXML(MACHINE.format(kind=kind, source=source))

    def lun(self, pool: str) -> None:
        volume = f"<volume><name>{NAME}</name><capacity>1048576</capacity></volume>"
        self.conn.storagePoolLookupByName(pool).createXML(volume, 0)

    def users_of(self, asked: SharedVolume) -> list[str]:
        (answer,) = users.users_of_shared(self.conn, [asked])
        assert answer["unknown"] == []
        found: list[str] = answer["users"]
        return found


@pytest.fixture
def pool() -> str:
    return "san"


@pytest.fixture
def other(tmp_path: Path, pool: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Other]:
    node = tmp_path / "node.xml"
    node.write_text(NODE.format(pool=pool), encoding="utf-8")
    monkeypatch.setattr(users, "is_local", lambda _uri: True)
    monkeypatch.setattr(units, "_BY_ID", str(tmp_path / "by-id"))
    monkeypatch.setattr(volume_facts, "_BY_ID", str(tmp_path / "by-id"))
    with open_connection(f"test://{node}") as conn:
        yield Other(conn, tmp_path)


def test_a_lun_that_nobody_has(other: Other) -> None:
    other.guest("block", "dev='/dev/vg/another'")
    assert other.users_of(ASKED) == []


@pytest.mark.parametrize("ending", ["", "-part1"])
def test_its_device_by_whatever_path(other: Other, ending: str) -> None:
    other.guest("block", f"dev='{other.device}'")
    assert other.users_of(ASKED) == []
    (other.by_id / f"scsi-{SERIAL}{ending}").symlink_to(other.device)
    assert other.users_of(ASKED) == ["machine web9"]
    assert other.users_of(SharedVolume("san", NAME, PLACE, serial=OTHER)) == []


def test_its_path_even_while_this_host_has_not_logged_in(other: Other) -> None:
    other.guest("block", f"dev='{PLACE}'")
    assert other.users_of(ASKED) == ["machine web9"]
    assert other.users_of(SharedVolume("san", NAME, PLACE)) == ["machine web9"]
    assert other.users_of(SharedVolume("san", NAME, PLACE.replace("lun-1", "lun-2"))) == []


def test_another_portal_of_its_target(other: Other) -> None:
    other.guest("block", f"dev='{PLACE.replace('192.0.2.9', '198.51.100.9')}'")
    assert other.users_of(ASKED) == ["machine web9"]
    assert other.users_of(SharedVolume("direct", NAME, "iscsi:iqn.2026-01.org.example:san/1")) == ["machine web9"]
    assert other.users_of(SharedVolume("direct", NAME, "iscsi:iqn.2026-01.org.example:san/2")) == []


@pytest.mark.parametrize("pool", ["other-name"])
def test_a_volume_of_a_pool_by_its_serial_number(other: Other, pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """libvirt's test driver has no serial numbers."""
    other.lun(pool)
    other.guest("volume", f"pool='{pool}' volume='{NAME}'")
    # The same number on another target, for all that is known, in a pool of another name.
    assert other.users_of(ASKED) == []
    monkeypatch.setattr(users, "serial_of", lambda _volume: SERIAL)
    assert other.users_of(ASKED) == ["machine web9"]
    assert other.users_of(SharedVolume(pool, NAME, PLACE, serial=OTHER)) == []


def test_without_numbers_the_names_of_pool_and_volume_have_to_do(other: Other) -> None:
    other.guest("volume", f"pool='san' volume='{NAME}'")
    assert other.users_of(ASKED) == ["machine web9"]
    assert other.users_of(SharedVolume("san", "unit:0:0:2", PLACE.replace("lun-1", "lun-2"))) == []


def test_a_lun_that_qemu_itself_reaches(other: Other) -> None:
    source = "protocol='iscsi' name='iqn.x/1'><host name='192.0.2.9'/></source><source_ "
    text = MACHINE.format(kind="network", source=source).replace("<source_ />", "")
    other.conn.defineXML(text)
    assert other.users_of(SharedVolume("direct", NAME, "iscsi:iqn.x/1")) == ["machine web9"]
    assert other.users_of(SharedVolume("direct", NAME, "iscsi:iqn.y/1")) == []
    by_device = SharedVolume("san", NAME, "/dev/disk/by-path/ip-192.0.2.9:3260-iscsi-iqn.x-lun-1", serial=SERIAL)
    assert other.users_of(by_device) == ["machine web9"]


@pytest.mark.parametrize("local", [True, False])
def test_a_device_that_nothing_names_for_all_hosts_cannot_be_recognised(
    other: Other, local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "is_local", lambda _uri: local)
    place = "/dev/sdb" if local else PLACE
    (answer,) = users.users_of_shared(other.conn, [SharedVolume("san", NAME, place)])
    assert answer["unknown"] == [f"whether {place} is a device of a machine cannot be told"]


def test_a_lun_of_its_own_that_a_target_shows_under_the_same_number(
    other: Other, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "_BY_PATH", f"{tmp_path}/")
    by_path = tmp_path / PLACE.rpartition("/")[2]
    by_path.symlink_to(other.device)
    (other.by_id / f"scsi-{OTHER}").symlink_to(other.device)
    other.guest("block", f"dev='{other.device}'")
    assert other.users_of(ASKED) == []
    assert other.users_of(SharedVolume("san", NAME, PLACE, serial=OTHER)) == ["machine web9"]
    # Where it is not known what is asked about, target and number have to do.
    assert other.users_of(SharedVolume("san", NAME, PLACE)) == ["machine web9"]
    assert other.users_of(SharedVolume("san", NAME, PLACE, serial="360000000000000000e00000000010001")) == [
        "machine web9"
    ]


def test_what_the_host_itself_uses(other: Other, monkeypatch: pytest.MonkeyPatch) -> None:
    other.guest("block", "dev='/dev/vg/another'")
    link = other.by_id / f"scsi-{SERIAL}"
    link.symlink_to(other.device)
    monkeypatch.setattr(devices, "is_busy", lambda path: path == str(link))
    assert other.users_of(ASKED) == [f"the host itself ({link} is mounted, swap, or in LVM or RAID)"]
    assert other.users_of(SharedVolume("san", NAME, PLACE, serial=OTHER)) == []
