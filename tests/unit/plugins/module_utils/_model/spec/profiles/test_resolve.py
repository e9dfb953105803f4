# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles in all the shapes in which people have them, and overrides that keep the rest."""

from __future__ import annotations

import copy
import typing as t

import pytest
import yaml

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions
from ansible_collections.brine.virt.plugins.module_utils._model.spec.profiles.devices import read_devices
from ansible_collections.brine.virt.plugins.module_utils._model.spec.profiles.resolve import (
    read_profiles,
    resolve_devices,
)

SYSTEM = [{"name": "system", "size": 8192}]
DATABASE = [{"name": "system", "size": 8192}, {"name": "data", "size": 30720}]


def on_bridge(name: str, bridge: str) -> dict[str, t.Any]:
    return {"name": name, "type": "bridge", "source": bridge}


DUAL = [on_bridge("eth0", "service_br"), on_bridge("eth1", "storage_br")]

# As Salt's documents print them, with every indentation that they were seen with.
SALT: list[tuple[str, str, str, str, list[dict[str, t.Any]]]] = [
    ("dotted", "disk", "default", "virt.disk:\n  default:\n    - system:\n        size: 8192\n", SYSTEM),
    ("flat by mistake", "disk", "default", "virt.disk:\n  default:\n    - system:\n      size: 8192\n", SYSTEM),
    (
        "two flat by mistake",
        "disk",
        "database",
        "virt.disk:\n  database:\n    - system:\n      size: 8192\n    - data:\n      size: 30720\n",
        DATABASE,
    ),
    (
        "nested key",
        "disk",
        "database",
        "virt:\n  disk:\n    database:\n      - system:\n          size: 8192\n      - data:\n          size: 30720\n",
        DATABASE,
    ),
    (
        "nested key beside the other kind",
        "nic",
        "dual",
        "virt:\n  disk: {}\n  nic:\n    dual:\n      eth0:\n        bridge: service_br\n"
        "      eth1:\n        bridge: storage_br\n",
        DUAL,
    ),
    (
        "dotted nic",
        "nic",
        "dual",
        "virt.nic:\n  dual:\n    eth0:\n      bridge: service_br\n    eth1:\n      bridge: storage_br\n",
        DUAL,
    ),
    (
        "list of mappings",
        "nic",
        "dual",
        "dual:\n  - eth0:\n      bridge: service_br\n  - eth1:\n      bridge: storage_br\n",
        DUAL,
    ),
    (
        "ours",
        "nic",
        "dual",
        "dual:\n  - {name: eth0, bridge: service_br}\n  - {name: eth1, bridge: storage_br}\n",
        DUAL,
    ),
]


UNSAID: t.Any = object()


def resolved(kind: str, profiles: t.Any, profile: t.Any = UNSAID, overrides: t.Any = None) -> list[GivenOptions]:
    known = read_profiles(kind, profiles, f"virt_{kind}_profiles")
    options = {f"{kind}s": overrides, **({} if profile is UNSAID else {f"{kind}_profile": profile})}
    return resolve_devices(kind, known, GivenOptions.of(options, "vms[0]"))


def resolve(kind: str, profiles: t.Any, profile: t.Any = UNSAID, overrides: t.Any = None) -> list[dict[str, t.Any]]:
    return [{"name": device.name, **device.values} for device in resolved(kind, profiles, profile, overrides)]


@pytest.mark.parametrize(
    ("kind", "profile", "text", "devices"), [case[1:] for case in SALT], ids=[case[0] for case in SALT]
)
def test_every_shape_is_the_same_profile(kind: str, profile: str, text: str, devices: t.Any) -> None:
    assert resolve(kind, yaml.safe_load(text), profile) == devices


@pytest.mark.parametrize("profiles", [None, {}, {"other": []}])
def test_without_a_profile_there_is_the_built_in_one(profiles: t.Any) -> None:
    assert resolve("disk", profiles) == SYSTEM
    assert resolve("nic", profiles) == [on_bridge("eth0", "br0")]


def test_a_default_of_ones_own_and_none_at_all() -> None:
    assert resolve("disk", {"default": {"root": {"size": "1MiB"}}}) == [{"name": "root", "size": "1MiB"}]
    assert resolve("disk", {"default": {"root": {"size": "1MiB"}}}, "none") == []
    assert resolve("disk", {}, "none", [{"name": "a", "size": "1MiB"}]) == [{"name": "a", "size": "1MiB"}]


def test_a_profile_whose_name_is_a_number() -> None:
    assert resolve("disk", {2024: [{"root": {"size": "1MiB"}}]}, "2024") == [{"name": "root", "size": "1MiB"}]
    assert resolve("disk", {2024: [{"root": {"size": "1MiB"}}]}, 2024) == [{"name": "root", "size": "1MiB"}]


def test_an_override_changes_what_it_names_and_keeps_the_rest() -> None:
    profiles = {"dual": {"eth0": {"bridge": "service_br", "model": "e1000"}, "eth1": {"bridge": "storage_br"}}}
    overrides = [{"name": "eth0", "mac": "52:54:00:00:00:01"}, {"eth2": {"network": "lan"}}]
    before = copy.deepcopy((profiles, overrides))
    assert resolve("nic", profiles, "dual", overrides) == [
        {"name": "eth0", "type": "bridge", "source": "service_br", "model": "e1000", "mac": "52:54:00:00:00:01"},
        on_bridge("eth1", "storage_br"),
        {"name": "eth2", "type": "network", "source": "lan"},
    ]
    assert (profiles, overrides) == before
    assert resolve("nic", profiles, "dual") == [
        {**on_bridge("eth0", "service_br"), "model": "e1000"},
        on_bridge("eth1", "storage_br"),
    ]


def test_each_device_comes_with_the_place_to_name() -> None:
    found = resolved("disk", {"p": [{"a": {}}, {"name": "b"}]}, "p", {"b": {"size": "1MiB"}})
    assert [device.place for device in found] == ["virt_disk_profiles.p[0].a", "vms[0].disks.b"]


@pytest.mark.parametrize("empty", [None, [], {}])
def test_no_devices(empty: t.Any) -> None:
    assert read_devices("disk", empty, "x") == []


BAD: list[tuple[t.Any, t.Any, t.Any, str]] = [
    ({}, "databse", None, "vms[0].disk_profile: unknown disk profile 'databse'. Known: default"),
    ({"database": []}, "databse", None, "vms[0].disk_profile: unknown disk profile 'databse'. Did you mean database?"),
    ([], "default", None, "virt_disk_profiles: [] is not a mapping of profiles"),
    ({"virt.disk": []}, "default", None, "virt_disk_profiles.virt.disk: [] is not a mapping of profiles"),
    ({"p": "big"}, "p", None, "virt_disk_profiles.p: 'big' is not a list of devices"),
    ({"p": [8192]}, "p", None, "virt_disk_profiles.p[0]: 8192 is not a device"),
    ({"p": [{}]}, "p", None, "virt_disk_profiles.p[0]: {} is not a device"),
    ({"p": [{"a": 8192}]}, "p", None, "virt_disk_profiles.p[0].a: 8192 is not a mapping of options"),
    ({"p": [{"size": "1MiB", "pool": "x"}]}, "p", None, "virt_disk_profiles.p[0]: the disk has no name"),
    ({"p": [{"a": {}, "size": "1MiB"}]}, "p", None, "virt_disk_profiles.p[0]: the disk has no name"),
    ({"p": {"a": {"name": "b"}}}, "p", None, "virt_disk_profiles.p.a: the device is called 'a' and 'b'"),
    ({"p": [{"a": {}}, {"a": {}}]}, "p", None, "virt_disk_profiles.p[1].a: the name 'a' is given twice"),
    ({"p": {"a/b": {}}}, "p", None, "virt_disk_profiles.p.a/b: 'a/b' is not a name"),
    ({}, "default", [{"size": "1MiB", "pool": "x"}], "vms[0].disks[0]: the disk has no name"),
    ({}, "default", [{"size": "8GiB"}], "vms[0].disks[0]: the disk has no name. Write {name: NAME, ...}"),
    ({}, "default", {"size": "8GiB", "pool": "x"}, "vms[0].disks: the disk has no name. Write {name: NAME, ...}"),
    ({}, "default", {"a": {}, "size": "1MiB"}, "vms[0].disks.size: '1MiB' is not a mapping of options"),
    ({}, "default", "none", "vms[0].disks: 'none' is not a list of devices"),
]


@pytest.mark.parametrize(("profiles", "profile", "overrides", "text"), BAD)
def test_what_is_wrong_is_refused_with_its_place(profiles: t.Any, profile: t.Any, overrides: t.Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve("disk", profiles, profile, overrides)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ({"network": "lan"}, {"type": "network", "source": "lan"}),
        ({"bridge": "br1"}, {"type": "bridge", "source": "br1"}),
        ({"source": "br1"}, {"type": "bridge", "source": "br1"}),
        ({"type": "network"}, {"type": "network"}),
        ({"type": "network", "source": "lan"}, {"type": "network", "source": "lan"}),
    ],
    ids=str,
)
def test_a_nic_is_plugged_in_at_one_place(override: dict[str, str], expected: dict[str, str]) -> None:
    base = {"one": {"eth0": {"bridge": "br0", "model": "e1000"}}}
    assert resolve("nic", base, "one", [{"name": "eth0", **override}]) == [
        {"name": "eth0", "model": "e1000", **expected}
    ]
