# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which names and addresses go into a certificate."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._tls.names import (
    check_name,
    global_addresses,
    is_name,
    own_addresses,
)


def link(name: str, *addresses: t.Any) -> dict[str, t.Any]:
    """A link as ``ip -json address`` shows it; addresses are global unless they say otherwise."""
    info = [{"scope": "global", **(one if isinstance(one, dict) else {"local": one})} for one in addresses]
    return {"ifname": name, "addr_info": info}


def test_addresses_that_others_reach_the_host_by() -> None:
    links = [
        link("lo", {"local": "127.0.0.1", "scope": "host"}),
        link("br0", "192.0.2.1", "2001:db8::1", {"local": "fe80::1", "scope": "link"}),
        link("mig0", "198.51.100.1", "192.0.2.1"),
        link("eth1", {"local": "2001:db8::2", "temporary": True}, {"local": "2001:db8::3", "deprecated": True}),
        link("br1", {"local": "203.0.113.1", "dynamic": True}),
        {"ifname": "eth9"},
    ]
    assert global_addresses(links) == ["192.0.2.1", "198.51.100.1", "2001:db8::1", "203.0.113.1"]


@pytest.mark.parametrize("name", ["virbr0", "docker0", "br-0123456789ab", "vnet3", "veth12", "cni-podman0", "lxdbr0"])
def test_networks_inside_the_host_are_left_out(name: str) -> None:
    assert global_addresses([link(name, "192.168.122.1")]) == []


def test_a_network_inside_the_host_is_left_out_whatever_its_name() -> None:
    """As of virt_network with a bridge of its own name, which has the same address on each host."""
    bridge = {"linkinfo": {"info_kind": "bridge"}}
    links = [
        {**link("virbr-lab", "192.168.60.1"), **bridge},
        {**link("vnet0"), "master": "virbr-lab", "linkinfo": {"info_kind": "tun"}},
        {**link("br0", "192.0.2.1"), **bridge},
        {**link("eth0"), "master": "br0"},
    ]
    assert global_addresses(links) == ["192.0.2.1"]


def test_the_addresses_of_a_host_are_read_with_what_its_links_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = [{**link("virbr-lab", "192.168.60.1"), "linkinfo": {"info_kind": "bridge"}}, link("eth0", "192.0.2.1")]
    (tmp_path / "ip").write_text(
        f"""#!/bin/sh\n[ "$*" = "-json -details address show" ] && echo '{json.dumps(links)}'\n"""
    )
    (tmp_path / "ip").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own_addresses() == ["192.0.2.1"]


@pytest.mark.parametrize(
    ("name", "form"),
    [("HV1.Example", "hv1.example"), ("hv_1", "hv_1"), ("192.0.2.1", "192.0.2.1"), ("2001:DB8:0::1", "2001:db8::1")],
)
def test_a_name_in_the_form_of_certificates(name: str, form: str) -> None:
    assert check_name(name, "names[0]") == form


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "-a",
        "a-",
        "a..b",
        "hv*",
        "localhost",
        "localhost.localdomain",
        "::1",
        "fe80::1",
        "1.2.3",
        "x" * 64,
        "2001:db8::1%eth0",
    ],
)
def test_what_is_no_name_of_a_host(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(InputError, match="neither a host name nor an address") as caught:
        check_name(name, "names[0]")
    assert caught.value.where == "names[0]"
