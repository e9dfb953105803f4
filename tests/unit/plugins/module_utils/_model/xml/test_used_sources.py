# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a description names outside its disks: QEMU's own options, which libvirt hands on as they are."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
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
