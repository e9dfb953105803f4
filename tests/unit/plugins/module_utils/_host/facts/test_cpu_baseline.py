# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be said of a common CPU without QEMU; the rest is proven in the lab."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts.cpu_baseline import (
    find_baseline,
    observe_guest_cpu,
)
from ansible_collections.brine.virt.plugins.module_utils._model.xml.guest_cpu import GuestCpu

EPYC = GuestCpu("x86_64", "kvm", "EPYC", "AMD", {})


@pytest.fixture
def conn(node_uri: str) -> Iterator[t.Any]:
    with open_connection(node_uri) as connection:
        yield connection


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (GuestCpu("aarch64", "kvm", "max", None, {}), r"different architectures \(hv1: x86_64, hv2: aarch64\)"),
        (GuestCpu("x86_64", "qemu", "EPYC", "AMD", {}), r"different kinds of virtualisation \(hv1: kvm, hv2: qemu\)"),
        (GuestCpu("x86_64", "kvm", "Haswell", "Intel", {}), r"different makers \(hv1: AMD, hv2: Intel\)"),
    ],
)
def test_cpus_that_have_nothing_in_common_are_told_before_libvirt_is_asked(
    conn: t.Any, other: GuestCpu, words: str
) -> None:
    with pytest.raises(ConflictError, match=words):
        find_baseline(conn, {"hv1": EPYC, "hv2": other})


def test_no_cpu_at_all(conn: t.Any) -> None:
    with pytest.raises(InputError, match="there is no CPU to compare"):
        find_baseline(conn, {})


def test_a_driver_that_cannot_reckon_says_so(conn: t.Any) -> None:
    with pytest.raises(UnsupportedError, match="cpus: libvirt finds no common CPU"):
        find_baseline(conn, {"hv1": EPYC})
    with pytest.raises(UnsupportedError, match="cannot read which CPUs machines can have"):
        observe_guest_cpu(conn, "x86_64", ["test"])
    with pytest.raises(UnsupportedError, match="cannot run machines of its own architecture"):
        observe_guest_cpu(conn, None, [])
