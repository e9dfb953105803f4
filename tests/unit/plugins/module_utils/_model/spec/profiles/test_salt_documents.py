# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The profiles that Salt's documents print, character by character, and the devices that their text promises."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import Machine
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine

DEFAULT_DISK = """\
virt.disk:
  default:
    - system:
      size: 8192
      format: qcow2
      model: virtio
"""
MORE_DISKS = """\
virt.disk:
  default:
    - system:
        size: 8192
  database:
    - system:
        size: 8192
    - data:
        size: 30720
  web:
    - system:
        size: 1024
    - logs:
        size: 5120
"""
DEFAULT_NIC = """\
virt:
  nic:
    default:
      eth0:
        bridge: br0
        model: virtio
"""
MORE_NICS = """\
virt:
  nic:
    dual:
      eth0:
        bridge: service_br
      eth1:
        bridge: storage_br
    single:
      eth0:
        bridge: service_br
    triple:
      eth0:
        bridge: service_br
      eth1:
        bridge: storage_br
      eth2:
        bridge: dmz_br
    all:
      eth0:
        bridge: service_br
      eth1:
        bridge: storage_br
      eth2:
        bridge: dmz_br
      eth3:
        bridge: database_br
    dmz:
      eth0:
        bridge: service_br
      eth1:
        bridge: dmz_br
    database:
      eth0:
        bridge: service_br
      eth1:
        bridge: database_br
"""

DISKS: list[tuple[str, str, list[tuple[str, int]]]] = [
    (DEFAULT_DISK, "default", [("system", 8192)]),
    (MORE_DISKS, "default", [("system", 8192)]),
    (MORE_DISKS, "database", [("system", 8192), ("data", 30720)]),
    (MORE_DISKS, "web", [("system", 1024), ("logs", 5120)]),
]
NICS: list[tuple[str, str, list[tuple[str, str]]]] = [
    (DEFAULT_NIC, "default", [("eth0", "br0")]),
    (MORE_NICS, "dual", [("eth0", "service_br"), ("eth1", "storage_br")]),
    (MORE_NICS, "single", [("eth0", "service_br")]),
    (MORE_NICS, "triple", [("eth0", "service_br"), ("eth1", "storage_br"), ("eth2", "dmz_br")]),
    (
        MORE_NICS,
        "all",
        [("eth0", "service_br"), ("eth1", "storage_br"), ("eth2", "dmz_br"), ("eth3", "database_br")],
    ),
    (MORE_NICS, "dmz", [("eth0", "service_br"), ("eth1", "dmz_br")]),
    (MORE_NICS, "database", [("eth0", "service_br"), ("eth1", "database_br")]),
]


def machine(**more: t.Any) -> Machine:
    profiles = {key: more.pop(key) for key in ("disk_profiles", "nic_profiles") if key in more}
    return read_machine({"name": "centos1", "cpu": 2, "mem": 512, **more}, **profiles)


@pytest.mark.parametrize(("text", "profile", "expected"), DISKS)
def test_disks(text: str, profile: str, expected: list[tuple[str, int]]) -> None:
    made = machine(disk_profiles=yaml.safe_load(text), disk=profile)
    assert [(disk.name, disk.size_mib) for disk in made.disks] == expected
    assert {(disk.model, disk.format or "qcow2", disk.device) for disk in made.disks} == {("virtio", "qcow2", "disk")}


@pytest.mark.parametrize(("text", "profile", "expected"), NICS)
def test_nics(text: str, profile: str, expected: list[tuple[str, str]]) -> None:
    made = machine(nic_profiles=yaml.safe_load(text), nic=profile)
    assert [(nic.name, nic.source) for nic in made.nics] == expected
    assert {(nic.type, nic.model) for nic in made.nics} == {("bridge", "virtio")}


@pytest.mark.parametrize(("text", "profile", "expected"), DISKS)
def test_the_other_shape_makes_an_equal_machine(text: str, profile: str, expected: list[tuple[str, int]]) -> None:
    loaded = yaml.safe_load(text)["virt.disk"][profile]
    mapping = {name: {"size": size} for name, size in expected}
    flat = [{"name": name, "size": size} for name, size in expected]
    if "format" not in str(loaded):
        for shape in (mapping, flat, [{name: keys} for name, keys in mapping.items()]):
            assert machine(disk_profiles={profile: shape}, disk=profile) == machine(
                disk_profiles=yaml.safe_load(text), disk=profile
            )


@pytest.mark.parametrize(("text", "profile", "expected"), NICS)
def test_the_list_shape_of_nics_makes_an_equal_machine(
    text: str, profile: str, expected: list[tuple[str, str]]
) -> None:
    written = yaml.safe_load(text)["virt"]["nic"][profile]
    as_list = [{name: keys} for name, keys in written.items()]
    assert machine(nic_profiles={profile: as_list}, nic=profile) == machine(
        nic_profiles=yaml.safe_load(text), nic=profile
    )
