# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Salt's words for a machine, each beside ours; and overrides, which change what they name and nothing else."""

from __future__ import annotations

import copy
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions
from ansible_collections.brine.virt.plugins.module_utils._model.spec.profiles.resolve import (
    read_profiles,
    resolve_devices,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine

BASE: dict[str, t.Any] = {"name": "m", "vcpus": 1, "memory": 512}
WORDS: list[tuple[dict[str, t.Any], dict[str, t.Any]]] = [
    ({"vcpus": None, "cpu": 2}, {"vcpus": 2}),
    ({"vcpus": None, "cpu": "2"}, {"vcpus": 2}),
    (
        {"vcpus": None, "cpu": {"current": 1, "maximum": 4, "mode": "host-model"}},
        {"vcpus": {"current": 1, "maximum": 4}, "cpu": {"mode": "host-model"}},
    ),
    ({"memory": None, "mem": 1024}, {"memory": 1024}),
    ({"memory": None, "mem": {"boot": "1GiB", "current": 512}}, {"memory": {"maximum": 1024, "current": 512}}),
    ({"interfaces": [{"name": "eth0", "bridge": "br1"}]}, {"nics": [{"name": "eth0", "bridge": "br1"}]}),
    ({"disk": "none", "nic": "none"}, {"disk_profile": "none", "nic_profile": "none"}),
    ({"enable_vnc": True}, {"graphics": "vnc"}),
    ({"enable_vnc": False}, {}),
    ({"image": "i", "enable_qcow": True}, {"image": "i", "clone": "overlay"}),
    ({"image": "i", "enable_qcow": False}, {"image": "i", "clone": "copy"}),
    ({"boot_dev": "network hd"}, {"boot": {"devices": ["network", "hd"]}}),
    ({"stop_on_reboot": True}, {"events": {"reboot": "destroy"}}),
    ({"hypervisor_features": {"kvm-hint-dedicated": True}}, {"features": {"kvm-hint-dedicated": True}}),
    ({"seed": False}, {"seed": {"method": "none"}}),
    ({"seed": True}, {}),
    (
        {"disks": [{"name": "x", "image": "i", "overlay_image": True}]},
        {"disks": [{"name": "x", "image": "i", "clone": "overlay"}]},
    ),
    (
        {"disks": [{"name": "x", "size": "1MiB", "iothread_id": 2}], "cpu": {"iothreads": 2}},
        {"disks": [{"name": "x", "size": "1MiB", "iothread": 2}], "cpu": {"iothreads": 2}},
    ),
    ({"disks": [{"name": "x", "source_file": "v"}]}, {"disks": [{"name": "x", "source": "v"}]}),
    (
        {"disks": [{"name": "x", "backing_store_path": "b", "backing_store_format": "qcow2"}]},
        {"disks": [{"name": "x", "backing": {"volume": "b", "format": "qcow2"}}]},
    ),
]


@pytest.mark.parametrize(("salt", "ours"), WORDS, ids=[",".join(salt) for salt, _ours in WORDS])
def test_both_words_make_the_same_machine(salt: dict[str, t.Any], ours: dict[str, t.Any]) -> None:
    given_by_salt = {**BASE, **salt}
    untouched = copy.deepcopy(given_by_salt)
    assert read_machine(given_by_salt) == read_machine({**BASE, **ours})
    assert given_by_salt == untouched


@pytest.mark.parametrize(
    "both", [{"cpu": 1}, {"mem": 1}, {"nics": [], "interfaces": []}, {"enable_vnc": True, "graphics": "spice"}]
)
def test_two_words_for_one_thing_are_refused(both: dict[str, t.Any]) -> None:
    with pytest.raises(InputError, match="given together"):
        read_machine({**BASE, **both}, where="vms[1]")


@pytest.mark.parametrize("value", [5, "5", True, "hd,cdrom", "hd disk"])
def test_a_boot_device_that_there_is_not_is_one_sentence_of_salts_word(value: t.Any) -> None:
    word = str(value).split()[-1]
    with pytest.raises(InputError) as caught:
        read_machine({**BASE, "boot_dev": value}, where="vms[1]")
    assert str(caught.value) == (
        f"vms[1].boot_dev: {word!r} is not a boot device. Give some of hd, cdrom, network and fd, separated by "
        "spaces, as in 'network hd'"
    )


def resolve(profile: t.Any, overrides: t.Any) -> list[dict[str, t.Any]]:
    options = GivenOptions.of({"disk_profile": "p", "disks": overrides}, "")
    found = resolve_devices("disk", read_profiles("disk", {"p": profile}, "profiles"), options)
    return [{"name": device.name, **device.values} for device in found]


KEYS = st.sampled_from(["size", "format", "model", "pool", "io", "cache", "serial", "boot_order", "readonly"])
VALUES = st.one_of(st.integers(1, 9), st.sampled_from(["a", "b"]))
DEVICE = st.dictionaries(KEYS, VALUES, max_size=4)
PROFILE = st.dictionaries(st.sampled_from(["system", "data", "logs"]), DEVICE, min_size=1, max_size=3)


@given(profile=PROFILE, overrides=PROFILE)
@settings(max_examples=100, deadline=None)
def test_an_override_changes_the_keys_it_names_and_nothing_else(profile: t.Any, overrides: t.Any) -> None:
    before = copy.deepcopy((profile, overrides))
    found = resolve(profile, overrides)
    assert (profile, overrides) == before, "the user's data were changed"
    devices = {device["name"]: device for device in found}
    assert list(devices) == [*profile, *(name for name in overrides if name not in profile)]
    for name, device in devices.items():
        assert device == {"name": name, **profile.get(name, {}), **overrides.get(name, {})}
    # Another machine of the same profile knows nothing of it.
    assert resolve(profile, None) == [{"name": name, **keys} for name, keys in profile.items()]


ORIGINS: list[tuple[dict[str, t.Any], dict[str, t.Any]]] = [
    ({"source": "v"}, {"name": "x", "model": "scsi", "source": "v"}),
    ({"image": "other"}, {"name": "x", "model": "scsi", "image": "other", "size": "5MiB", "clone": "copy"}),
    ({"backing": "b"}, {"name": "x", "model": "scsi", "backing": "b", "size": "5MiB"}),
]


@pytest.mark.parametrize(("override", "device"), ORIGINS)
def test_another_origin_takes_the_place_of_the_first(override: dict[str, t.Any], device: dict[str, t.Any]) -> None:
    profile = {"x": {"image": "i", "clone": "copy", "size": "5MiB", "model": "scsi"}}
    assert resolve(profile, {"x": override}) == [device]


@pytest.mark.parametrize(("text", "value"), [("false", False), ("no", False), ("True", True), ("on", True)])
@pytest.mark.parametrize("option", ["seed", "tpm", "rng", "watchdog"])
def test_true_and_false_may_be_texts_as_on_the_command_line(option: str, text: str, value: bool) -> None:
    spec: dict[str, t.Any] = {"name": "a", "vcpus": 1, "memory": "1MiB"}
    common: dict[str, t.Any] = {"seed_defaults": {"method": "none"}}
    assert read_machine({**spec, option: text}, **common) == read_machine({**spec, option: value}, **common)
    assert read_machine({**spec, option: text}) == read_machine({**spec, option: value})
