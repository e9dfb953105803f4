# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collecting who uses volumes: what fails is not taken for what has gone."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import users
from ansible_collections.brine.virt.plugins.module_utils._host.storage.users import unless_gone
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.machines.unreadable import define_unreadable


def test_an_error_without_a_code_is_nothing_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    # As an older libvirt.
    monkeypatch.delattr(libvirt, "VIR_ERR_NO_DOMAIN_CHECKPOINT")
    with (
        pytest.raises(HostError, match=r"^cannot list checkpoints: it failed"),
        unless_gone("DOMAIN_CHECKPOINT", "cannot list checkpoints"),
    ):
        raise libvirt.libvirtError("it failed")


def test_a_machine_that_cannot_be_read_may_use_anything(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        define_unreadable(conn)
        (unknown,) = [found for found in users.collect_users(conn).unknown if found.machine == "ent1"]
    assert unknown.words.startswith("the description of machine ent1 cannot be read as XML: Entity 'x' not defined")
    assert unknown.writes


def test_a_snapshot_that_cannot_be_read_is_told_from_its_machine(node_uri: str) -> None:
    """It has the machine's XML one level deeper."""
    nested = "<f:a xmlns:f='http://f'>" + "<a>" * 253 + "</a>" * 253 + "</f:a>"
    deep = f"""<domain type='test'><name>deep1</name><memory>1024</memory><os><type>hvm</type></os>
        <metadata>{nested}</metadata></domain>"""
    with open_connection(node_uri) as conn:
        machine = conn.defineXML(deep)
        before = users.collect_users(conn).unknown
        machine.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>")
        (unknown,) = [found for found in users.collect_users(conn).unknown if found not in before]
    assert unknown.words.startswith(
        "the description of snapshot before of machine deep1 cannot be read as XML: Excessive depth"
    )
    assert unknown.machine == "deep1"
