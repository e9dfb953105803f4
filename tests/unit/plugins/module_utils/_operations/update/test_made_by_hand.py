# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adopted machines that have what no machine of ours has: it is changed, refused or named, and never again each run."""

from __future__ import annotations

import typing as t

import pytest
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes, notes_to_element
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import further_consoles
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host

pytestmark = pytest.mark.medium

MACHINE = """<domain type='test'><name>a</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>
<metadata>{notes}</metadata><devices>{devices}</devices></domain>"""
OWN_TPM = "<tpm model='tpm-tis'><backend type='passthrough'><device path='/dev/tpm0'/></backend></tpm>"


def adopt(host: Host, devices: str) -> None:
    notes = etree.tostring(notes_to_element(MachineNotes()), encoding="unicode")
    host.conn.defineXML(MACHINE.format(notes=notes, devices=devices))


def test_the_version_of_a_tpm_that_is_not_emulated_is_no_choice(host: Host) -> None:
    adopt(host, OWN_TPM)
    with pytest.raises(UnsupportedError, match=r"^machines\[0\]\.tpm: the TPM of machine a is .* of type passthrough"):
        host.plan({"name": "a", "tpm": "2.0"})
    for value in (True, {"model": "tpm-tis"}):
        assert not host.plan({"name": "a", "tpm": value})[0].steps
    host.make({"name": "a", "tpm": False})
    host.make({"name": "a", "tpm": "2.0"})
    assert not host.plan({"name": "a", "tpm": "2.0"})[0].steps


def test_consoles_beside_the_first_are_named(host: Host) -> None:
    def named(graphics: t.Any) -> dict[str, list[str]]:
        return further_consoles(
            host.plan({"name": "a", "graphics": graphics}), Hypervisor(host.conn, image_pool="images")
        )

    assert named("vnc") == {}
    spice = "<graphics type='spice'><listen type='network' network='n'/></graphics><graphics type='egl-headless'/>"
    adopt(host, f"<graphics type='vnc'/><graphics type='vnc' listen='0.0.0.0'/>{spice}")
    assert named({"type": "vnc", "listen": "127.0.0.1"}) == {"a": ["vnc on 0.0.0.0", "spice on n"]}
    # Those go too.
    assert named(False) == {}


@pytest.mark.parametrize("more", [{}, {"consoles": ["pty"]}])
def test_a_serial_device_keeps_its_alias_and_shares_it_with_none(host: Host, more: dict[str, t.Any]) -> None:
    adopt(host, "<serial type='pty'><target type='isa-serial' port='0'/><alias name='ua-one'/></serial>")
    asked = {"name": "a", "serials": [{"type": "pty", "log": "/var/log/a"}], **more}
    host.make(asked)
    assert not host.plan(asked)[0].steps
    xml = etree.fromstring(host.conn.lookupByName("a").XMLDesc(2))
    assert xml.find("devices/serial/alias[@name='ua-one']") is not None
