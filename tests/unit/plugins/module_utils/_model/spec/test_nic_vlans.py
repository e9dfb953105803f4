# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VLANs of a nic that is there already."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.table import Field, read_table, write_table
from ansible_collections.brine.virt.plugins.module_utils._model.spec.nic import NIC_OPTIONS
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.network.table import NETWORK, PORTGROUP

TRUNK = "<vlan trunk='yes'><tag id='20'/><tag id='30'/></vlan>"
NATIVE = "<vlan trunk='yes'><tag id='20'/><tag id='30' nativeMode='untagged'/></vlan>"


@pytest.mark.parametrize(
    ("there", "vlans", "trunk"),
    [
        (TRUNK, [{"id": 20}], None),
        (TRUNK, [{"id": 20}, {"id": 31}], "yes"),
        (NATIVE, [{"id": 30, "native": "untagged"}], "yes"),
        (TRUNK, [], None),
    ],
)
def test_a_port_of_one_vlan_is_no_trunk(there: str, vlans: list[dict[str, t.Any]], trunk: str | None) -> None:
    nic = parse_xml(f"<interface type='bridge'>{there}</interface>")
    write_table(nic, NIC_OPTIONS, {"vlan": vlans})
    assert read_table(nic, NIC_OPTIONS)["vlan"] == tuple(vlans)
    vlan = nic.find("vlan")
    assert (vlan is None) is (not vlans)
    assert vlan is None or vlan.get("trunk") == trunk


@pytest.mark.parametrize("fields", [NIC_OPTIONS, PORTGROUP, NETWORK])
def test_a_port_has_one_native_vlan(fields: tuple[Field, ...]) -> None:
    """libvirt says no only when it is asked to define it, which check mode does not."""
    (field,) = [one for one in fields if one.key == "vlan"]
    one: dict[str, t.Any] = {"id": 20, "native": "untagged"}
    assert field.check([10, one], "nics[0].vlan") == ({"id": 10}, one)
    with pytest.raises(
        InputError, match=r"^nics\[0\].vlan\[2\].native: a port has one native VLAN. nics\[0\].vlan\[0\]"
    ):
        field.check([one, 30, {"id": 40, "native": "tagged"}], "nics[0].vlan")
