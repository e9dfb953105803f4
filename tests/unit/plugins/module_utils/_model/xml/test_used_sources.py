# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a description names outside its disks: QEMU's own options, which libvirt hands on as they are."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    ImageNote,
    MachineNotes,
    notes_to_element,
)
from ansible_collections.brine.virt.plugins.module_utils._model.xml.used_sources import references_in

DOMAIN = """
<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>theirs</name>
<qemu:commandline><qemu:arg value='-drive'/><qemu:arg value={word}/></qemu:commandline></domain>
"""


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("file=/srv/vm/data.qcow2,if=virtio,format=qcow2", "/srv/vm/data.qcow2"),
        ("if=none,file=/srv/vm/with blank.img", "/srv/vm/with blank.img"),
        ("file=/srv/a,,b.img,if=virtio", "/srv/a,b.img"),
        ('{"driver":"file","filename":"/srv/vm/data.qcow2","node-name":"x"}', "/srv/vm/data.qcow2"),
        ("driver=qcow2,file.filename=file:/srv/vm/data.qcow2", "/srv/vm/data.qcow2"),
        ("/srv/vm/data.qcow2", "/srv/vm/data.qcow2"),
    ],
)
def test_files_in_options_of_qemu(word: str, path: str) -> None:
    found = list(references_in(parse_xml(DOMAIN.format(word=quoteattr(word))), "hv1"))
    assert {reference.path for reference in found} == {path}
    assert all(reference.writes for reference in found)


@pytest.mark.parametrize("word", ["-drive", "size=1/2", "driver=nbd,server.host=::1"])
def test_options_without_files(word: str) -> None:
    assert not list(references_in(parse_xml(DOMAIN.format(word=quoteattr(word))), "hv1"))


@pytest.mark.parametrize(
    ("kind", "volumes"),
    [
        ("domainsnapshot", {"web1.qcow2", "old.qcow2", "base.qcow2"}),
        # Nobody goes back to one: the machine's own disks alone have something of it.
        ("domaincheckpoint", {"web1.qcow2"}),
    ],
)
def test_what_a_disk_was_backed_by_at_a_checkpoint_is_no_use(kind: str, volumes: set[str]) -> None:
    notes = etree.tostring(notes_to_element(MachineNotes(image=ImageNote("old", "old.qcow2", "images")))).decode()
    disk = (
        "<disk type='volume'><source pool='default' volume='web1.qcow2'/>"
        "<backingStore type='volume'><source pool='images' volume='base.qcow2'/></backingStore></disk>"
    )
    machine = f"<domain><metadata>{notes}</metadata><devices>{disk}</devices></domain>"
    found = references_in(parse_xml(f"<{kind}>{machine}</{kind}>"), "hv1")
    assert {one.volume[1] for one in found if one.volume is not None} == volumes
