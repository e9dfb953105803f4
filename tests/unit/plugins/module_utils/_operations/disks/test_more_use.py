# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that a machine has, and that a task changes so that it would do more with a volume that others have."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import (
    IMAGE,
    SHARE,
    Disks,
    Host,
    one,
)

IN_STORE: dict[str, t.Any] = {"source": IMAGE, "pool": "images"}


def test_a_readonly_disk_becomes_one_that_writes_to_what_another_machine_has(host: Host) -> None:
    host.add_guest()
    host.make(one("a", Disks.READONLY))
    assert host.refused(one("a", {**Disks.WRITE, "readonly": False})) == (
        f"machines[0].disks[0].readonly: volume x.qcow2 is a disk of machine guest. {SHARE}".replace(
            "volume x.qcow2", f"volume {host.path}"
        )
    )
    assert "a qcow2 volume cannot be shared" in host.refused(one("a", {**Disks.SHAREABLE, "readonly": False}))
    host.add_guest(has=False)
    host.make(one("a", {**Disks.WRITE, "readonly": False}))
    assert "<readonly/>" not in host.conn.lookupByName("a").XMLDesc(2)
    assert not host.plan(one("a", {**Disks.WRITE, "readonly": False}))[0].steps


def test_a_readonly_disk_on_an_image_of_the_store(host: Host) -> None:
    host.make(one("a", {**IN_STORE, "readonly": True}))
    assert host.refused(one("a", {**IN_STORE, "readonly": False})) == (
        f"machines[0].disks[0].readonly: volume {IMAGE} is an image of the store, and must not be written to. Use "
        "it as image, or set readonly"
    )
    assert "xml" in host.refused(
        one("b", xml=f"<devices><disk type='file'><source file='{host.directory}/images/{IMAGE}'/><target dev='vdc'/>"
            "</disk></devices>")
    )  # fmt: skip


@pytest.mark.parametrize("by_path", [False, True])
def test_an_image_of_the_store_by_another_name(host: Host, by_path: bool) -> None:
    other = {"source": f"{host.directory}/same/{IMAGE}"} if by_path else {"source": IMAGE, "pool": "same"}
    assert "is an image of the store, and must not be written to" in host.refused(one("a", other))
    host.plan(one("a", {**other, "readonly": True}))


def test_what_an_overlay_is_on(host: Host) -> None:
    host.make(one("a", Disks.READONLY), one("b", {"backing": "x.qcow2"}))
    for more in ({"readonly": False}, {"readonly": False, "shareable": True}):
        assert ", and must not be written to" in host.refused(one("a", {**Disks.WRITE, **more}))


def test_no_longer_shared(host: Host) -> None:
    raw = {"source": "raw.img", "format": "raw", "shareable": True}
    (host.directory / "default" / "raw.img").write_bytes(bytes(1024 * 1024))
    host.conn.storagePoolLookupByName("default").createXML(
        "<volume><name>raw.img</name><capacity>1048576</capacity></volume>", 0
    )
    host.make(one("a", raw), one("b", raw))
    assert "is a disk of machine b" in host.refused(one("a", {**raw, "shareable": False}))


def test_two_disks_of_one_machine(host: Host) -> None:
    host.make(one("a", Disks.READONLY, Disks.READONLY))
    assert host.refused(one("a", {**Disks.WRITE, "readonly": False})) == (
        "machines[0].disks[0].readonly: disk e of this machine has the same volume. Remove e first (state: absent)"
    )


def test_two_machines_of_one_task(host: Host) -> None:
    host.make(one("a", Disks.READONLY))
    assert "is also requested as disk d of machine a" in host.refused(
        one("a", {**Disks.WRITE, "readonly": False}), one("b", Disks.READONLY)
    )


@pytest.mark.parametrize("source", [IN_STORE, Disks.WRITE])
def test_a_readonly_disk_that_was_not_made_for_the_machine_does_not_grow(host: Host, source: dict[str, t.Any]) -> None:
    host.add_guest()
    host.make(one("a", {**source, "readonly": True}))
    assert host.refused(one("a", {"size": "2MiB"})).startswith(
        f"machines[0].disks[0].size: the disk is read-only, and its volume {source['source']} was not created for this "
        "machine"
    )


def test_a_volume_that_others_have_does_not_grow(host: Host) -> None:
    host.make(one("a", Disks.WRITE))
    assert host.plan(one("a", {"size": "2MiB"}))[0].steps
    host.add_volume("over.qcow2", "-b", str(host.path), "-F", "qcow2")
    assert "backs volume default/over.qcow2" in host.refused(one("a", {"size": "2MiB"}))


def test_a_new_volume_that_machines_share_has_no_map_of_its_own(host: Host) -> None:
    """libvirt's driver for QEMU takes no other format."""
    shared = {"size": "1MiB", "shareable": True}
    with pytest.raises(InputError, match=r"^machines\[0\]\.disks\[0\]\.shareable: a qcow2 volume cannot be shared"):
        host.plan(one("a", shared))
    host.plan(one("a", {**shared, "format": "raw"}), one("b", {**shared, "readonly": True}))


def test_a_disk_of_its_own_that_a_copied_machine_has_as_well_does_not_grow(host: Host) -> None:
    """QEMU would refuse it in words of its own while that one runs."""
    host.make(one("a", {"size": "1MiB"}))
    (name,) = host.files("a")
    host.path = host.directory / "default" / name
    assert host.plan(one("a", {"size": "2MiB"}))[0].steps
    guest = host.add_guest()
    assert host.refused(one("a", {"size": "2MiB"})) == (
        f"machines[0].disks[0].size: volume {name} is a disk of machine guest. {SHARE}"
    )
    guest.undefine()
    # Of a medium, or as what it only reads, nobody minds.
    host.add_guest(rest="<readonly/>")
    assert host.plan(one("a", {"size": "2MiB"}))[0].steps
