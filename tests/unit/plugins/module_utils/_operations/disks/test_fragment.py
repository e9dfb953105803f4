# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks in the user's own XML, on volumes that others use."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import (
    SHARE,
    Disks,
    Host,
    one,
)

SHAREABLE = "<shareable/>"


def xml(host: Host, rest: str = "", *, by_pool: bool = False) -> str:
    kind, source = ("volume", "pool='default' volume='x.qcow2'") if by_pool else ("file", f"file='{host.path}'")
    disk = f"<disk type='{kind}'><driver type='qcow2'/><source {source}/><target dev='vdx'/>{rest}</disk>"
    return f"<devices>{disk}</devices>"


@pytest.mark.parametrize("by_pool", [False, True])
def test_a_disk_of_another_machine(host: Host, by_pool: bool) -> None:
    fragment = xml(host, by_pool=by_pool)
    host.make(one("a", xml=fragment), one("b"))
    host.plan(one("a", xml=fragment + " "))
    name = "x.qcow2" if by_pool else str(host.path)
    for machine in ("b", "c"):
        message = f"machines[0].xml: volume {name} is a disk of machine a. {SHARE}"
        assert host.refused(one(machine, xml=fragment)) == message
    host.plan(one("c", xml=xml(host, "<readonly/>", by_pool=by_pool)))
    host.plan(one("c", xml=xml(host, "<shareable/>", by_pool=by_pool)))


def test_machines_of_one_task(host: Host) -> None:
    assert host.refused(one("a", xml=xml(host)), one("b", Disks.WRITE)) == (
        f"machines[1].disks[0].source: volume x.qcow2 is also requested as disk vdx of machine a (machines[0].xml). "
        f"{SHARE}"
    )
    assert "and break every overlay" in host.refused(one("a", xml=xml(host)), one("b", Disks.OVERLAY))
    assert "machines[1].xml" in host.refused(one("a", Disks.WRITE), one("b", xml=xml(host, by_pool=True)))
    host.make(one("a", Disks.OVERLAY), one("b", xml=xml(host, "<readonly/>")))


def test_what_others_are_backed_by(host: Host) -> None:
    host.add_volume("y.qcow2", "-b", str(host.path), "-F", "qcow2")
    for rest in ("", "<shareable/>"):
        assert "backs volume default/y.qcow2" in host.refused(one("a", xml=xml(host, rest)))


NEW = {"size": "1MiB"}


def naming(host: Host, volume: str, rest: str = "") -> str:
    disk = f"<disk type='file'><source file='{host.directory / 'same' / volume}'/><target dev='vdx'/>{rest}</disk>"
    return f"<devices>{disk}</devices>"


def test_a_volume_that_the_same_task_makes(host: Host) -> None:
    """It is not there yet, and nothing but the task itself knows of it."""
    new, taking = one("a", {**NEW, "pool": "images"}), one("b", xml=naming(host, "a-d.qcow2"))
    place = f"{host.directory}/same/a-d.qcow2"
    assert host.refused(new, taking) == (
        f"machines[1].xml: volume {place} is also requested as disk d of machine a (machines[0].disks[0]). {SHARE}"
    )
    assert host.refused(taking, new) == (
        f"machines[1].disks[0]: volume a-d.qcow2 is also requested as disk vdx of machine b (machines[0].xml). {SHARE}"
    )
    raw = {**NEW, "pool": "images", "shareable": True, "format": "raw"}
    both = [one("a", raw), one("b", xml=naming(host, "a-d.raw", SHAREABLE))]
    host.plan(*both)


def test_a_seed_that_the_same_task_makes(host: Host) -> None:
    new = one("a", {**NEW}, seed={"method": "nocloud", "pool": "images", "user": "ops"})
    assert "volume a-seed.iso is also requested as disk vdx of machine b" in host.refused(
        one("b", xml=naming(host, "a-seed.iso")), new
    )
