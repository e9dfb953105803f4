# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bridge can do for a nic, by files as the kernel has them."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts import networks
from ansible_collections.brine.virt.plugins.module_utils._host.facts.networks import check_bridge_vlan

PLACE = "virt_vms[0].nics[1].vlan"


@pytest.fixture
def conn() -> t.Iterator[VirConnect]:
    with open_connection("test:///default") as opened:
        yield opened


@pytest.fixture
def links(tmp_path: Path) -> str:
    """A host with br0, which filters VLANs, and br1, which does not; ovs0 is no bridge of the kernel."""
    for name, value in (("br0", "1"), ("br1", "0")):
        (tmp_path / name / "bridge").mkdir(parents=True)
        (tmp_path / name / "bridge/vlan_filtering").write_text(f"{value}\n")
    (tmp_path / "ovs0").mkdir()
    return str(tmp_path)


def test_libvirt_has_to_know_how(conn: VirConnect, links: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "_VLANS_SINCE", conn.getLibVersion() + 1)
    with pytest.raises(
        UnsupportedError, match=r"cannot put a nic on the bridge br0 into a VLAN\. libvirt 11\.0"
    ) as caught:
        check_bridge_vlan(conn, "br0", PLACE, root=links)
    assert caught.value.where == PLACE
    check_bridge_vlan(conn, "ovs0", PLACE, root=links)


def test_the_bridge_has_to_look_at_vlans(conn: VirConnect, links: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "_VLANS_SINCE", conn.getLibVersion())
    check_bridge_vlan(conn, "br0", PLACE, root=links)
    with pytest.raises(ConflictError, match="the bridge br1 does not filter VLANs. Set vlan_filtering: true"):
        check_bridge_vlan(conn, "br1", PLACE, root=links)


def test_from_afar_libvirt_itself_says_it(conn: VirConnect) -> None:
    check_bridge_vlan(conn, "lo", PLACE)
