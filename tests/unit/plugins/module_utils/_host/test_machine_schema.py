# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of a whole description before libvirt sees it, such as one with XML of the user's."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.machines import schema
from ansible_collections.brine.virt.plugins.module_utils._host.machines.schema import check_schema

DOMAIN = """<domain type='test'><name>m</name><memory unit='MiB'>64</memory><vcpu>2</vcpu><os><type>hvm</type></os>
<cpu><numa><cell cpus='0' memory='32' unit='MiB'><distances><sibling id='{}' value='{}'/></distances></cell>
<cell id='1' cpus='1' memory='32' unit='MiB'/></numa></cpu></domain>"""


@pytest.fixture(params=[True, False], ids=["schema", "no schema"], autouse=True)
def _with_and_without_a_schema(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(schema, "_schema", lambda: None)


@pytest.mark.parametrize(("other", "distance"), [("0", "20"), ("1", "10"), ("2", "20"), ("7", "10")])
def test_a_numa_distance_that_makes_libvirtd_crash(other: str, distance: str) -> None:
    with pytest.raises(InputError) as caught:
        check_schema(DOMAIN.format(other, distance), "virt_vms[0].xml")
    assert str(caught.value) == (
        f"virt_vms[0].xml: the distance of NUMA cell 0 to {other} is {distance}. It is 10 to the cell itself, and from "
        "11 to 255 to another one of the machine"
    )


@pytest.mark.parametrize(("other", "distance"), [("0", "10"), ("1", "11"), ("1", "255")])
def test_those_that_libvirt_takes(other: str, distance: str) -> None:
    check_schema(DOMAIN.format(other, distance), "virt_vms[0].xml")
