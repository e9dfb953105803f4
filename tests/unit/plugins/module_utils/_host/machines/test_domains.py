# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All machines of a hypervisor, those among them that nobody can read."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import find_machine, list_domains
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.machines.unreadable import define_unreadable


def test_a_machine_that_cannot_be_read_keeps_its_name_its_uuid_and_its_memory(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        handle = define_unreadable(conn)
        domains = list_domains(conn)
        assert set(domains) == {"db1", "ent1", "half", "web1"}
        domain = domains["ent1"]
        assert domain.handle.UUIDString() == domain.xml.findtext("uuid") == handle.UUIDString()
        assert (domain.xml.findtext("memory"), domain.xml.findtext("vcpu")) == (str(16 * 1024), "2")
        assert (domain.active, domain.notes) == (False, None)
        domains["web1"].require_readable()
        with pytest.raises(HostError) as caught:
            domain.require_readable("name")
    assert str(caught.value).startswith(
        "name: the description of machine ent1 cannot be read as XML: Entity 'x' not defined, line 5"
    )
    assert str(caught.value).endswith("virsh edit ent1")


def test_a_machine_that_is_not_there_is_answered_with_those_that_are(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        assert find_machine(conn, "web1").name() == "web1"
        with pytest.raises(NotFoundError) as caught:
            find_machine(conn, "web11", "name")
    assert str(caught.value) == "name: there is no machine 'web11' on this hypervisor. Did you mean web1?"
