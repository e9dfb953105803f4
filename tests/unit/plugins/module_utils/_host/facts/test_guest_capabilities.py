# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine types of a hypervisor, as they are named to whoever brings a machine of another one."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.facts.guest_capabilities import GuestCapabilities

TYPES = [
    *("none", "pc", "q35", "isapc", "microvm", "pc-q35-noble", "pc-i440fx-10.0"),
    *(f"pc-q35-{version}" for version in ("8.2", "9.1", "9.2", "10.0", "10.1")),
]


@pytest.mark.parametrize(
    ("types", "asked", "words"),
    [
        (TYPES, "pc-q35-10.2", "pc-q35-9.2, pc-q35-10.0, pc-q35-10.1"),
        (TYPES, "pc-q35-rhel9.6.0", "pc-q35-9.2, pc-q35-10.0, pc-q35-10.1"),
        (TYPES, "pc-i440fx-10.2", "pc-i440fx-10.0"),
        (TYPES, "virt-10.0", "none of this kind"),
        (TYPES, "ubuntu", "none of this kind"),
        (["virt", "virt-9.2", "virt-10.0", "akita"], "virt-10.1", "virt-9.2, virt-10.0"),
        (["s390-ccw-virtio", "s390-ccw-virtio-9.2"], "s390-ccw-virtio-10.0", "s390-ccw-virtio, s390-ccw-virtio-9.2"),
    ],
)
def test_the_newest_types_of_the_kind_are_named(types: list[str], asked: str, words: str) -> None:
    """Also where a version has two digits, and on processors whose types have no chipset in their names."""
    with libvirt.open("test:///default") as conn:
        guests = GuestCapabilities(conn)
    guests.machine_types = set(types)
    assert guests.types_like(asked) == words


@pytest.mark.parametrize(
    ("have", "wanted", "same"),
    [
        ("pc-q35-9.2", "q35", True),
        ("pc-q35-noble", "q35", True),
        ("pc-i440fx-9.2", "pc", True),
        ("pc-i440fx-9.2", "q35", False),
        ("pc-q35-9.2", "pc", False),
        ("virt-9.2", "virt", True),
        ("s390-ccw-virtio-9.2", "s390-ccw-virtio", True),
        # What is no alias means just that version.
        ("pc-q35-9.2", "pc-q35-10.0", False),
        ("pc-q35-9.2", "microvm", False),
    ],
)
def test_an_older_version_is_what_its_alias_asks_for(have: str, wanted: str, same: bool) -> None:
    """Since the machine was made, QEMU has become newer, and the alias stands for another version."""
    newest = {"pc": "pc-i440fx-10.0", "q35": "pc-q35-10.0", "virt": "virt-10.0"}
    with libvirt.open("test:///default") as conn:
        guests = GuestCapabilities(conn)
    guests._canonical = {**newest, "s390-ccw-virtio": "s390-ccw-virtio-10.0", "microvm": "microvm"}
    assert guests.same_machine_type(have, wanted) is same


def test_an_alias_that_this_hypervisor_does_not_have() -> None:
    with libvirt.open("test:///default") as conn:
        guests = GuestCapabilities(conn)
    assert guests.same_machine_type("pc-q35-9.2", "q35")
    assert not guests.same_machine_type("pc-i440fx-9.2", "q35")
