# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that somebody has taken out of a machine with virsh, and whose volume is still noted as the machine's own."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, need, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host, one

EMPTY: dict[str, t.Any] = {"size": "1MiB"}
LARGER: dict[str, t.Any] = {"size": "2MiB"}


@pytest.fixture
def lost(host: Host) -> Host:
    """Machine a with disk d, and without its disk e."""
    host.make(one("a", EMPTY, LARGER))
    xml = parse_xml(host.conn.lookupByName("a").XMLDesc(2))
    need(xml, "devices").remove(need(xml, "devices/disk/target[@dev='vdb']/.."))
    host.conn.defineXML(etree.tostring(xml, encoding="unicode"))
    return host


def noted(host: Host) -> list[str]:
    notes = list_domains(host.conn)["a"].notes
    return [volume.name for volume in notes.volumes] if notes else []


def test_it_comes_back_with_what_is_in_it(lost: Host) -> None:
    lost.make(one("a", EMPTY, LARGER))
    assert lost.files("a") == ["a-d.qcow2", "a-e.qcow2"]
    assert not lost.plan(one("a", EMPTY, LARGER))[0].steps


@pytest.mark.parametrize("other", [{"source": "x.qcow2"}, {"source": "x.qcow2", "device": "cdrom"}])
def test_another_source_that_the_task_names_is_that(lost: Host, other: dict[str, t.Any]) -> None:
    lost.make(one("a", EMPTY, other))
    assert lost.files("a") == ["a-d.qcow2", "x.qcow2"]


def test_it_has_its_new_size_at_once(lost: Host) -> None:
    (todo,) = lost.plan(one("a", EMPTY, {"size": "3MiB"}))
    words = [step.description for step in todo.steps]
    assert words.index("grow disk e of a to 3 MiB") < words.index("change the definition of a: disk e")
    with pytest.raises(InputError, match="the disk has 2 MiB, the task asks for 1"):
        lost.plan(one("a", EMPTY, EMPTY))


def test_one_whose_volume_was_deleted_is_recreated(lost: Host) -> None:
    lost.conn.storagePoolLookupByName("default").storageVolLookupByName("a-e.qcow2").delete(0)
    (lost.directory / "default" / "a-e.qcow2").unlink(missing_ok=True)
    lost.make(one("a", EMPTY, LARGER))
    assert lost.files("a") == noted(lost) == ["a-d.qcow2", "a-e.qcow2"]


def test_one_that_is_to_be_absent_is_no_more_the_machines_own(lost: Host) -> None:
    gone = {"name": "a", "disks": [{"name": "e", "state": "absent"}]}
    lost.make(gone)
    assert noted(lost) == ["a-d.qcow2"]
    assert not lost.plan(gone)[0].steps


def test_one_that_has_come_back_under_another_name_stays_its_own(lost: Host) -> None:
    xml = parse_xml(lost.conn.lookupByName("a").XMLDesc(2))
    disk = f"<disk type='file'><source file='{lost.directory}/default/a-e.qcow2'/><target dev='vdc'/></disk>"
    need(xml, "devices").append(parse_xml(disk))
    lost.conn.defineXML(etree.tostring(xml, encoding="unicode"))
    lost.make({"name": "a", "disks": [{"name": "e", "state": "absent"}]})
    assert noted(lost) == ["a-d.qcow2", "a-e.qcow2"]
