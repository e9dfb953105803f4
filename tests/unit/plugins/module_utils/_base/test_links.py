# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bridges of networks inside a host are told by what is in them."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.links import is_inner_bridge


def link(name: str, kind: str = "", master: str = "") -> dict[str, t.Any]:
    """A link as iproute2 6.1 writes it, as far as it is read."""
    return {
        "ifname": name,
        **({"linkinfo": {"info_kind": kind}} if kind else {}),
        **({"master": master} if master else {}),
    }


@pytest.mark.parametrize(
    ("kind", "ports", "is_inner"),
    [
        ("bridge", [], True),
        ("bridge", [link("vnet0", "tun", "virbr-lab"), link("eth0")], True),
        ("bridge", [link("vnet0", "tun", "virbr-lab"), link("eth0", master="virbr-lab")], False),
        ("bridge", [link("bond0", "bond", "virbr-lab")], False),
        ("vlan", [], False),
        ("", [], False),
    ],
)
def test_a_bridge_inside_the_host_has_only_ports_of_machines(
    kind: str, ports: list[dict[str, t.Any]], is_inner: bool
) -> None:
    me = link("virbr-lab", kind)
    assert is_inner_bridge(me, [me, *ports]) is is_inner
