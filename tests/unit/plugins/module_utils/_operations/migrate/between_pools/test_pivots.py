# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A switch whose end nobody has seen: libvirt's test driver says where the disk is, qemu-io what QEMU has open."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.storage.disk_lock import first_open
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import MigrationNote, VolumeRef
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.between_pools import pivots
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.between_pools import settle as settling
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.between_pools.copied import copied_volumes
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.between_pools.settle import record, settle
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.context import NoteWriter
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.migrate.between_pools.node import (
    UUID,
    disk_places,
    volume,
    write_node,
)

pytestmark = pytest.mark.skipif(not shutil.which("qemu-io"), reason="qemu-utils is not installed")

DATA = "web1-data.raw"
OLD, NEW = VolumeRef("slow", DATA), VolumeRef("fast", DATA, origin="slow")
# When the machine was about to be switched.
WHEN = 1763766000.0
BEFORE, LATER = WHEN - 3600, WHEN + 3600
ON_OLD, ON_NEW = f"slow/{DATA}", f"fast/{DATA}"


class Host:
    """A machine whose disk a run was about to switch from pool slow to pool fast. Off, if it is not said otherwise."""

    def __init__(self, folder: Path, conn: t.Any) -> None:
        self.old, self.new = folder / "slow" / DATA, folder / "fast" / DATA
        self.conn = conn
        self.domain = conn.lookupByName("web1")

    def write(self, old: float, new: float, *, same: bool = False) -> None:
        """What is in the two volumes, and when they were last written."""
        for path, byte, moment in ((self.old, b"o", old), (self.new, b"o" if same else b"n", new)):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(byte * 65536)
            os.utime(path, (moment, moment))

    def settle(self, pivot: str = f"{WHEN:.3f}") -> None:
        """As the next run does it."""
        made = VolumeRef("fast", DATA, origin="slow", pivot=pivot)
        note = MigrationNote("here", "here", "test:///", made=(made,), left=(OLD,))
        assert settle(self.conn, UUID, note, trusted_made=[NEW], trusted_left=[OLD]) == []

    def refused(self, pivot: str = f"{WHEN:.3f}") -> str:
        """The error; nothing is deleted, and the machine has what it had."""
        had = self.place
        with pytest.raises(ConflictError) as caught:
            self.settle(pivot)
        assert self.there == {ON_OLD, ON_NEW}
        assert self.place == had
        assert "Nothing was deleted. " in str(caught.value)
        return str(caught.value)

    @property
    def place(self) -> str:
        """Where its definition has the disk."""
        (place,) = [one for one in disk_places(self.domain, libvirt.VIR_DOMAIN_XML_INACTIVE) if one.endswith(DATA)]
        return place

    @property
    def there(self) -> set[str]:
        """The volumes that are left."""
        pools = ("slow", "fast")
        return {f"{pool}/{DATA}" for pool in pools if DATA in self.conn.storagePoolLookupByName(pool).listVolumes()}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    locked = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(settling, "hypervisor_lock", locked)
    # Long before the switch.
    monkeypatch.setattr(pivots, "booted_at", lambda: BEFORE)
    monkeypatch.setattr(pivots, "first_open", functools.partial(first_open, wait_seconds=0.3))
    with open_connection(write_node(tmp_path, in_fast=volume(DATA))) as conn:
        made = Host(tmp_path, conn)
        made.write(BEFORE, LATER)
        made.domain.destroy()
        yield made


@contextlib.contextmanager
def opened(path: Path) -> Iterator[None]:
    """A QEMU has the file open."""
    command = ["qemu-io", "-f", "raw", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("length\n")
        process.stdin.flush()
        assert process.stdout.readline()
        yield
        process.stdin.close()


@pytest.mark.parametrize("pivot", ["", str(WHEN)], ids=["never requested", "requested"])
def test_what_a_qemu_has_open_stays_though_libvirt_says_that_the_machine_is_off(host: Host, pivot: str) -> None:
    with opened(host.new):
        words = host.refused(pivot)
    assert "a QEMU has volume web1-data.raw of pool fast open, and libvirt says that web1 is off" in words
    assert f"fuser {host.new} shows" in words


@pytest.mark.parametrize("pivot", ["", str(WHEN)], ids=["never requested", "requested"])
def test_what_a_qemu_has_open_stays_though_libvirt_says_that_the_machine_has_the_old_one(
    host: Host, pivot: str
) -> None:
    host.domain.create()
    with opened(host.new):
        words = host.refused(pivot)
    assert "QEMU has volume web1-data.raw of pool fast open, and libvirt says that web1 does not use it" in words
    assert "Shut web1 down (virt_power with state: stopped), and run it again, which finishes it" in words


def test_an_old_volume_that_a_qemu_has_open_is_not_deleted(host: Host) -> None:
    note = MigrationNote("here", "here", "test:///", made=(NEW,), left=(OLD,))
    record(host.conn, host.domain, copied_volumes(host.conn, note))
    with opened(host.old):
        assert "a QEMU has volume web1-data.raw of pool slow open" in host.refused()
    host.settle()
    assert host.there == {ON_NEW}


def started(monkeypatch: pytest.MonkeyPatch, moment: float | None) -> None:
    """When the machine's QEMU was started; the test driver has none."""
    monkeypatch.setattr(pivots, "started_at", lambda _name: moment)


def test_a_machine_that_runs_and_has_not_been_switched_keeps_the_old_one(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.domain.create()
    started(monkeypatch, BEFORE)
    with opened(host.old):
        host.settle()
    assert (host.there, host.place) == ({ON_OLD}, ON_OLD)


def test_a_machine_that_was_started_again_since_may_have_left_its_data_in_the_new_one(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt starts it on the old volume, whatever it wrote to the new one before its host lost its power."""
    host.domain.create()
    started(monkeypatch, LATER)
    with opened(host.old):
        words = host.refused()
    assert "to that of pool fast, and started again since, at 2025-11-22 00:00:0" in words
    assert words.endswith("and run it again, which finishes it, or says what its latest data is in")


@pytest.mark.parametrize(("moment", "pivot"), [(None, str(WHEN)), (BEFORE, "soon"), (BEFORE, "nan")])
def test_a_machine_whose_start_or_switch_has_no_time_is_shut_down_first(
    host: Host, monkeypatch: pytest.MonkeyPatch, moment: float | None, pivot: str
) -> None:
    host.domain.create()
    started(monkeypatch, moment)
    with opened(host.old):
        host.refused(pivot)


@pytest.mark.parametrize("autostart", [True, False])
def test_it_starts_with_its_hypervisor_again_once_it_is_settled(host: Host, autostart: bool) -> None:
    writer = NoteWriter(MigrationNote("here", "here", "test:///", made=(NEW,), left=(OLD,), autostart=autostart))
    host.domain.setAutostart(int(autostart))
    writer.pivots(host.domain, NEW)
    assert not host.domain.autostart()
    settle(host.conn, UUID, writer.note, trusted_made=[NEW], trusted_left=[OLD])
    assert bool(host.domain.autostart()) == autostart


def test_it_does_so_after_a_copy_that_libvirt_has_cancelled(host: Host) -> None:
    writer = NoteWriter(MigrationNote("here", "here", "test:///", made=(NEW,), left=(OLD,), autostart=True))
    writer.pivots(host.domain, NEW)
    writer.cancelled(host.domain, [NEW])
    assert host.domain.autostart()


def test_what_was_not_about_to_be_switched_keeps_what_an_operator_has_set(host: Host) -> None:
    note = MigrationNote("here", "here", "test:///", made=(NEW,), left=(OLD,), autostart=True)
    settle(host.conn, UUID, note, trusted_made=[NEW], trusted_left=[OLD])
    assert not host.domain.autostart()


def test_a_machine_that_runs_on_neither_as_far_as_can_be_seen_is_shut_down_first(host: Host) -> None:
    """Its pool was taken away under it, or its disk is a device, whose locks nobody sees."""
    host.domain.create()
    words = host.refused()
    assert (
        "about to be switched from volume web1-data.raw of pool slow to that of pool fast, and libvirt cannot" in words
    )


def test_off_it_gets_what_was_written_after_the_switch(host: Host) -> None:
    host.settle()
    assert (host.there, host.place) == ({ON_NEW}, ON_NEW)


def test_what_a_host_that_was_started_since_says_of_its_files_proves_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have lost its power, and with it the time of the last write to the old one, which has all of them."""
    monkeypatch.setattr(pivots, "booted_at", lambda: WHEN + 60)
    assert host.refused().count("they differ") == 1
    host.write(BEFORE, LATER, same=True)
    host.settle()
    assert host.there == {ON_OLD}


def test_off_it_keeps_the_old_one_where_both_are_the_same(host: Host) -> None:
    host.write(LATER, LATER, same=True)
    host.settle()
    assert (host.there, host.place) == ({ON_OLD}, ON_OLD)


@pytest.mark.parametrize(
    ("old", "new"),
    [(LATER, LATER + 1), (LATER + 3600, LATER), (LATER, LATER + 3600), (WHEN, WHEN + 5)],
    ids=["both go on", "the old one goes on", "one after the other", "it died soon after"],
)
def test_off_both_stay_where_either_may_be_the_newer(host: Host, old: float, new: float) -> None:
    host.write(old, new)
    words = host.refused()
    assert "web1 was about to be switched" in words
    assert "at 2025-11-21 23:00:00 UTC, and which of the two has its latest data cannot be told: they differ" in words
    assert f"{host.old} was last written at 2025-11-2" in words
    assert f"virsh edit web1, have the disk name {host.new}, and run it again" in words


@pytest.mark.parametrize("pivot", ["soon", "nan"])
def test_a_time_that_cannot_be_read_proves_nothing(host: Host, pivot: str) -> None:
    assert "which of the two has its latest data cannot be told" in host.refused(pivot)
    host.write(BEFORE, LATER, same=True)
    host.settle(pivot)
    assert host.there == {ON_OLD}


def test_a_new_volume_whose_pool_is_not_mounted_is_not_taken_for_one_that_is_gone(host: Host) -> None:
    host.new.unlink()
    words = host.refused()
    assert f"there is no {host.new}, where volume web1-data.raw of pool fast was" in words
    assert "virsh metadata web1 urn:brine:virt:move:1 --config --remove" in words


def test_who_chooses_the_old_one_is_told_to_have_it_start_with_its_host_again(host: Host) -> None:
    writer = NoteWriter(MigrationNote("here", "here", "test:///", made=(NEW,), left=(OLD,), autostart=True))
    writer.pivots(host.domain, NEW)
    host.new.unlink()
    assert "--config --remove && virsh autostart web1 && virsh vol-delete --pool fast web1-data.raw" in host.refused()


def test_a_disk_that_the_definition_has_no_more_tells_nothing(host: Host, tmp_path: Path) -> None:
    xml = host.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    host.conn.defineXML(xml.replace(f"{tmp_path}/slow/{DATA}", f"{tmp_path}/other/{DATA}"))
    assert "its definition does not name slow/web1-data.raw any more" in host.refused()
