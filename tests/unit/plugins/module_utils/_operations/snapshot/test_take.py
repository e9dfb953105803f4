# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A snapshot that libvirt cannot take of a guest that it has asked to freeze."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.backup import quiesce
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot import take

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


def create(handle: Slow, flags: int) -> None:
    power = types.SimpleNamespace(handle=handle)
    take._create(t.cast("t.Any", types.SimpleNamespace(power=power, name="web1")), "<domainsnapshot/>", flags)


def test_it_goes_on_when_it_has_frozen_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiesce, "_THAW_AGAIN_SECONDS", 0.01)
    guest = Slow(3)
    with pytest.raises(libvirt.libvirtError, match="not responding"):
        create(guest, QUIESCE)
    assert guest.asked == 3


def test_one_that_does_not_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiesce, "_THAW_SECONDS", 0.0)
    with pytest.raises(HostError, match="its file systems may be frozen: .*virsh domfsthaw web1"):
        create(Slow(3), QUIESCE)


def test_without_a_freeze_nobody_is_asked() -> None:
    guest = Slow(1)
    with pytest.raises(libvirt.libvirtError):
        create(guest, 0)
    assert guest.asked == 0


def test_files_that_libvirt_has_gone_over_to_and_forgotten_are_named() -> None:
    """It has a snapshot no more when the agent does not thaw after it, and the machine writes to the new file."""
    disk = "<disk device='disk' type='file'><source file='/p/{}.qcow2'/><target dev='{}'/></disk>"
    xml = f"<domain><devices>{disk.format('web1.s1', 'vda')}{disk.format('data', 'vdb')}</devices></domain>"
    machine: t.Any = types.SimpleNamespace(
        name="web1", power=types.SimpleNamespace(handle=types.SimpleNamespace(XMLDesc=lambda _flags: xml))
    )
    method: t.Any = types.SimpleNamespace(files={"vda": "/p/web1.s1.qcow2", "vdb": "/p/data.s1.qcow2"})
    begun = take._files_begun(machine, method)
    assert begun == {"vda": "/p/web1.s1.qcow2"}
    error = take._forgotten("web1", begun, HostError("it may be frozen", hint="virsh domfsthaw web1"))
    assert str(error) == (
        "it may be frozen; the machine writes to /p/web1.s1.qcow2 now, and libvirt has no snapshot of it. "
        "virsh domfsthaw web1. Merge what it writes there while it runs: "
        "virsh blockcommit web1 vda --active --shallow --pivot. Then delete these files"
    )
