# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host under a hypervisor says of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.facts.system import (
    observe_bridge_details,
    read_release,
    read_uptime_seconds,
)

RELEASE = """# a comment
PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
VERSION_ID="12"
BROKEN="no end
ID=debian
"""


def test_the_release_is_the_one_of_the_first_file(tmp_path: Path) -> None:
    assert read_release(str(tmp_path)) is None
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/os-release").write_text("ID=sid\n")
    assert read_release(str(tmp_path)) == {"id": "sid", "name": None, "version": None}
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(RELEASE)
    assert read_release(str(tmp_path)) == {
        "id": "debian",
        "name": "Debian GNU/Linux 12 (bookworm)",
        "version": "12",
    }


def test_uptime(tmp_path: Path) -> None:
    (tmp_path / "uptime").write_text("93784.51 180000.00\n")
    assert read_uptime_seconds(str(tmp_path / "uptime")) == 93784
    assert read_uptime_seconds(str(tmp_path / "none")) is None


def test_bridges_have_ports_and_addresses(tmp_path: Path) -> None:
    (tmp_path / "br0/brif").mkdir(parents=True)
    for port in ("vnet0", "eth0"):
        (tmp_path / "br0/brif" / port).touch()
    addresses = [
        {"family": "inet", "local": "192.0.2.11", "prefixlen": 24, "scope": "global"},
        {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link"},
    ]
    said = json.dumps([{}, {"ifname": "br0", "addr_info": addresses}, {"ifname": "lo"}])
    assert observe_bridge_details(["br0", "br1"], ask=lambda: said, root=str(tmp_path)) == [
        {"name": "br0", "ports": ["eth0", "vnet0"], "addresses": ["192.0.2.11/24"]},
        {"name": "br1", "ports": [], "addresses": []},
    ]


def test_nonsense_is_an_error() -> None:
    with pytest.raises(HostError, match="cannot read the addresses of the bridges"):
        observe_bridge_details(["br0"], ask=lambda: "no such program")
