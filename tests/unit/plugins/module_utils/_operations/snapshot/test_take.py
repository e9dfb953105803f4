# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A snapshot that libvirt cannot take of a guest that it has asked to freeze."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import need, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.backup import quiesce
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import EXTERNAL
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot import take
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.method import Method

QUIESCE = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_QUIESCE


class Slow:
    """A machine whose agent freezes too late, and thaws when it is asked for the `thaws`th time."""

    def __init__(self, thaws: int) -> None:
        self.asked, self._thaws = 0, thaws

    def agentSetResponseTimeout(self, _seconds: int) -> None:  # noqa: N802 - libvirt's name
        """Any limit will do."""

    def isActive(self) -> bool:  # noqa: N802 - libvirt's name
        return True

    def snapshotCreateXML(self, _xml: str, _flags: int) -> None:  # noqa: N802 - libvirt's name
        raise libvirt.libvirtError("Guest agent is not responding")

    def fsThaw(self) -> int:  # noqa: N802 - libvirt's name
        self.asked += 1
        if self.asked < self._thaws:
            raise libvirt.libvirtError("Guest agent is not responding")
        return 1


def create(handle: Slow) -> None:
    power = types.SimpleNamespace(handle=handle)
    machine: t.Any = types.SimpleNamespace(power=power, name="web1")
    take._create_frozen(machine, "<domainsnapshot/>", QUIESCE)


def test_it_goes_on_when_it_has_frozen_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiesce, "_THAW_AGAIN_SECONDS", 0.01)
    guest = Slow(3)
    with pytest.raises(libvirt.libvirtError, match="not responding"):
        create(guest)
    assert guest.asked == 3


def test_one_that_does_not_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiesce, "_THAW_SECONDS", 0.0)
    with pytest.raises(HostError, match="its file systems may be frozen: .*virsh domfsthaw web1"):
        create(Slow(3))


class Forgetful(Slow):
    """A machine whose agent freezes and never thaws: libvirt goes over to the new file, and forgets the snapshot."""

    def __init__(self, *, learns: bool = True, goes_over: bool = True) -> None:
        super().__init__(99)
        self.told: list[tuple[str, int]] = []
        self._learns, self._goes_over, self._file = learns, goes_over, "/p/web1.qcow2"

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802 - libvirt's name
        disk = f"<disk device='disk' type='file'><source file='{self._file}'/><target dev='vda'/></disk>"
        return f"<domain><name>web1</name><devices>{disk}</devices></domain>"

    def snapshotCreateXML(self, xml: str, flags: int) -> None:  # noqa: N802 - libvirt's name
        if flags & libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE:
            if not self._learns:
                raise libvirt.libvirtError("internal error")
            self.told.append((xml, flags))
            return
        assert flags & QUIESCE
        if self._goes_over:
            self._file = "/p/web1-vda.s2.qcow2"
        raise libvirt.libvirtError("Guest agent is not responding")


def take_of(handle: Forgetful, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said."""
    monkeypatch.setattr(quiesce, "_THAW_SECONDS", 0.0)
    before = types.SimpleNamespace(facts=types.SimpleNamespace(name="s1"), current=True)
    power = types.SimpleNamespace(handle=handle, state="running")
    machine: t.Any = types.SimpleNamespace(name="web1", active=True, power=power, snapshots=[before])
    files = {"vda": "/p/web1-vda.s2.qcow2"}
    method = Method(EXTERNAL, memory=False, quiesce=True, disks=("vda",), left_out=("sda",), files=files)
    with pytest.raises(HostError) as error:
        take._take(machine, "s2", method, "before the upgrade")
    return str(error.value)


def test_libvirt_is_told_of_a_snapshot_that_it_has_taken_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the machine as it was before: what a revert goes back to."""
    guest = Forgetful()
    said = take_of(guest, monkeypatch)
    assert "its file systems may be frozen" in said and "virsh domfsthaw web1" in said
    assert "snapshot s2 was taken before that, and stays" in said
    [(xml, flags)] = guest.told
    assert flags & libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT
    root = parse_xml(xml)
    assert root.findtext("name") == "s2" and root.findtext("state") == "disk-snapshot"
    assert root.findtext("parent/name") == "s1" and int(root.findtext("creationTime") or 0) > 0
    assert need(root, "disks/disk[@name='vda']/source").get("file") == "/p/web1-vda.s2.qcow2"
    assert need(root, "domain/devices/disk/source").get("file") == "/p/web1.qcow2"


def test_one_that_it_cannot_be_told_of_is_named_with_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    said = take_of(Forgetful(learns=False), monkeypatch)
    assert "writes to the files of snapshot s2 now, and libvirt, which has forgotten it, cannot be told of it" in said
    assert "virsh blockcommit web1 vda --active --shallow --pivot. Then delete the files" in said


def test_one_that_was_not_taken_is_not_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Forgetful(goes_over=False)
    assert "was taken" not in take_of(guest, monkeypatch) and guest.told == []
