# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules refuse is refused by the schema, but for what only several values together show."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.spec import (
    test_network,
    test_seed,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.spec.hardware import test_description
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.spec.profiles import test_salt_words
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.spec.reading import (
    test_machines,
    test_nothing_ignored,
)
from ansible_collections.brine.virt.tests.unit.schema.editor import complaints, complaints_of_machine

MACHINE = {"name": "a", "vcpus": 1, "memory": 512}
# What a schema of one value cannot know: two options together, and names of something else.
BEYOND = re.compile(
    "given together|at once|is taken by|unknown (disk|nic) profile|neither a size nor an image|cannot be an overlay"
    "|has no name|a cdrom has no|have the same|it is the fo|it is next to|the profile is in"
    "|in seed.* already|not base64|more than one gateway|could reach it|cannot be reached|not a network"
    "|of a whole network|such as 192.0.2.1|no interface can have|none of the networks|Networks: |own address"
)


def cases(test: t.Any) -> list[tuple[t.Any, ...]]:
    """The table of cases of another test."""
    (mark,) = (mark for mark in test.pytestmark if mark.name == "parametrize")
    return list(mark.args[1])


def refused(found: list[str], words: str, what: t.Any) -> None:
    assert found or BEYOND.search(words), f"{what} is accepted, and refused with: {words}"


@pytest.mark.parametrize(("more", "words"), test_machines.REFUSED)
def test_a_machine(more: dict[str, t.Any], words: str) -> None:
    refused(complaints_of_machine({**MACHINE, **more}), words, more)


@pytest.mark.parametrize(("profiles", "more", "words"), test_nothing_ignored.PLACES)
def test_devices(profiles: dict[str, t.Any], more: dict[str, t.Any], words: str) -> None:
    refused(complaints_of_machine({**MACHINE, **more}, **profiles), words, (profiles, more))


@pytest.mark.parametrize(("profiles", "words"), test_nothing_ignored.NOT_PROFILES)
def test_profiles(profiles: dict[str, t.Any], words: str) -> None:
    refused(complaints({"virt_disk_profiles": profiles}), words, profiles)


# No file can hold what is not YAML. Only JavaScript sees the line break: to Python, $ is also before a last one.
SEEDS = [
    (seed, place, words)
    for seed, place, words in cases(test_seed.test_what_is_wrong_is_said_with_its_place)
    if "cannot be written as YAML" not in words and seed.get("hostname") != "web1\n"
]


@pytest.mark.parametrize(("seed", "place", "words"), SEEDS)
def test_a_seed(seed: dict[str, t.Any], place: str, words: str) -> None:
    refused(complaints({"virt_seed": seed}), f"{place}: {words}", seed)
    refused(complaints_of_machine({**MACHINE, "seed": seed}), f"{place}: {words}", seed)


@pytest.mark.parametrize(("nic", "place", "words"), cases(test_network.test_what_is_wrong_is_said_with_its_place))
def test_a_network(nic: dict[str, t.Any], place: str, words: str) -> None:
    refused(complaints_of_machine({**MACHINE, "nics": {"eth0": nic}}), words, nic)


@pytest.mark.parametrize(
    ("option", "written", "where"), cases(test_description.test_what_is_wrong_is_said_with_its_place)
)
def test_hardware(option: str, written: t.Any, where: str) -> None:
    together = (
        "vcpus.current",
        "vcpus.cpuset",
        "memory",
        "cpu.model",
        "cpu.match",
        "cpu.tuning.vcpusched",
        "graphics.tls",
        "graphics.password",
        "video.vram",
        "video.heads",
        "serials[0]",
        "serials[0].mode",
        "serials[0].tls",
        "serials[0].protocol",
        "consoles[0].host",
        "consoles[0].mode",
        "tpm.model",
        "clock.timezone",
        "clock.timers.pit.tickpolicy",
    )
    assert complaints_of_machine({**MACHINE, option: written}) or where in together


@pytest.mark.parametrize("value", [5, True, "hd,cdrom", "hd disk"])
def test_a_boot_device_of_salts(value: t.Any) -> None:
    assert complaints_of_machine({**MACHINE, "boot_dev": value})


@pytest.mark.parametrize(("salt", "_ours"), test_salt_words.WORDS)
def test_salts_words_are_accepted(salt: dict[str, t.Any], _ours: t.Any) -> None:
    assert complaints_of_machine({**MACHINE, **salt}) == []


WRONG: list[dict[str, t.Any]] = [
    {"virt_vms": {"name": "a", "vcpus": 1, "memory": "1MiB"}},
    {"virt_vms": "web1"},
    {"virt_vms": ["web1"]},
    {"virt_policy": "sprad"},
    {"virt_memory_reserve_mib": "two"},
    {"virt_images": ["debian"]},
    {"virt_images": {"debian": "debian.qcow2"}},
    {"virt_seed": {"usr": "a"}},
    {"virt_nic_profiles": {"p": [{"eth0": {"brigde": "br0"}}]}},
    {"virt_disk_profiles": {"p": [{"system": None, "sise": 1}]}},
    {"virt.disk": {"p": {"system": {"sise": 1}}}},
    {"virt": {"nic": {"p": {"eth0": {"brigde": "br0"}}}}},
    {"vm": "a", "memory": "lots"},
]


@pytest.mark.parametrize("variables", WRONG, ids=str)
def test_variables(variables: dict[str, t.Any]) -> None:
    assert complaints(variables)


FINE: list[dict[str, t.Any]] = [
    {},
    {"virt_vms": None, "virt_seed": False, "virt_disk_profiles": None, "my_own": 1, "virt_backup_hour": 3},
    {"virt_vms": "{{ mine }}", "virt_disk_profiles": "{{ a | combine(b) }}", "virt_images": {"a": "{{ debian }}"}},
    {"virt_vms": [{**MACHINE, "name": "web{{ n }}", "memory": "{{ gib * 1024 }}", "nics": "{{ nics }}"}, "{{ one }}"]},
    {"virt_vms": [{**MACHINE, "disks": ["{{ disk }}", {"data": "{{ data }}"}], "tags": ["{{ tag }}"]}]},
    {"virt_vms": [{**MACHINE, "rng": "{{ rng }}", "cpu": {"tuning": "{{ x }}"}}]},
    {"virt_vms": [{**MACHINE, "seed": {"password_hash": "$ANSIBLE_VAULT;1.1;AES256\n6162"}}]},
    {"virt_vms": [{**MACHINE, "start": "no", "autostart": "yes", "nics": {"eth0": {"link": "off"}}}]},
    {"memory": "lots", "image": ["of my own"]},
    {"vm": "a", "vcpus": 2, "memory": "2GiB", "image": "https://example.org/a.qcow2", "checksum": "sha256:00"},
    {"virt_labels": {"disk": "ssd", "gpu": False}, "virt_memory_ratio": 1.5, "virt_policy": "pack"},
    {"virt": {"own": 1}},
]


@pytest.mark.parametrize("variables", FINE, ids=str)
def test_what_a_file_may_have(variables: dict[str, t.Any]) -> None:
    assert complaints(variables) == []


def test_one_that_is_to_be_removed_needs_only_a_name() -> None:
    assert complaints_of_machine({"name": "a", "state": "absent"}) == []
    assert complaints_of_machine({"name": "a", "state": "{{ wanted }}"}) == []
    for state in ("running", "stopped", "present", "gone", None):
        assert complaints_of_machine({"name": "a", "state": state}), state
    assert complaints_of_machine({"state": "absent"})
    assert complaints_of_machine({"name": "a", "state": "absent", "memory": "much"})
