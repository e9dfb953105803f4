# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user names is used or refused, never passed over; and what is refused is named as the user wrote it."""

from __future__ import annotations

import datetime
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import Machine
from ansible_collections.brine.virt.plugins.module_utils._model.spec.names import (
    DirectoryAsPoolError,
    with_pool_named,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine

BASE: dict[str, t.Any] = {"name": "m", "vcpus": 1, "memory": 512}
DISKS = {"p": [{"system": {"size": 1000}}]}
NICS = {"p": {"eth0": {"bridge": "service_br"}}}
Options = dict[str, t.Any]


def read(profiles: Options | None = None, **more: t.Any) -> Machine:
    return read_machine({**BASE, **more}, where="vms[1]", **(profiles or {}))


def refusal(profiles: Options | None = None, **more: t.Any) -> str:
    with pytest.raises(InputError) as caught:
        read(profiles, **more)
    return str(caught.value)


SALT: list[Options] = [
    {"master": "salt", "virt": {"disk": DISKS, "nic": NICS}},
    {"virt.disk": DISKS, "virt.nic": NICS},
    {"virt": {"disk": DISKS, "nic": NICS, "images": "/srv/salt-images", "tunnel": True}},
    {"virt.disk": DISKS, "virt": {"nic": NICS}},
    {"virt.nic": NICS, "virt": {"disk": DISKS, "nic": {"other": {"eth0": {"bridge": "x"}}}}},
    {"master": "salt", "file_roots": {"base": ["/srv/salt"]}, "schedule": {"a": {"minutes": 1}}, "virt.disk": DISKS}
    | {"virt.nic": NICS},
]


@pytest.mark.parametrize("config", SALT, ids=",".join)
def test_a_whole_salt_configuration_is_unwrapped(config: Options) -> None:
    made = read({"disk_profiles": config, "nic_profiles": config}, disk="p", nic="p")
    assert (made.disks[0].size_mib, made.nics[0].source) == (1000, "service_br")


NOT_PROFILES: list[tuple[Options, str]] = [
    ({"virt": {"nic": NICS}}, "disk_profiles: this is a Salt configuration that has virt.nic, and no disk profiles"),
    ({"virt": {"images": "/srv", "tunnel": True}}, "disk_profiles: this is a Salt configuration that has virt, and no"),
    (
        {"virt.disk": DISKS, "web": [{"system": {"size": "1MiB"}}]},
        "disk_profiles.web: it is next to virt.disk and looks",
    ),
    (
        {"virt.disk": DISKS, "virt": {"disk": DISKS}},
        "disk_profiles.virt.disk.p: the profile is in disk_profiles.virt.d",
    ),
    ({"master": "salt", **DISKS}, "disk_profiles.master: 'salt' is not a list of devices"),
    ({"disk": DISKS, "nic": NICS}, "disk_profiles.disk.p: a list is not a mapping of options"),
    ({"disk": {"p": {"system": {"size": "1MiB"}}}}, "disk_profiles.disk.p: unknown option 'system'"),
    ({"p": [], "q": [{"system": {"sise": 1}}]}, "disk_profiles.q[0].system: unknown option 'sise'. Did you mean size?"),
]


@pytest.mark.parametrize(("profiles", "words"), NOT_PROFILES)
def test_what_are_no_profiles_is_refused_whether_used_or_not(profiles: Options, words: str) -> None:
    assert refusal({"disk_profiles": profiles}).startswith(words)


def test_a_profile_may_be_called_virt() -> None:
    assert read({"disk_profiles": {"virt": {"disk": {"size": "7MiB"}}}}, disk="virt").disks[0].size_mib == 7


IMAGES: list[tuple[Options, Options, list[str | None]]] = [
    ({"system": {"image": "a"}}, {}, ["mine"]),
    ({"system": {"image": "a"}, "data": {"image": "b"}}, {}, ["mine", "b"]),
    ({"system": {"size": "1MiB"}, "data": {"image": "b"}}, {}, ["mine", "b"]),
    ({"cd": {"device": "cdrom"}, "system": {"image": "a"}}, {}, [None, "mine"]),
    ({"system": {"image": "a"}}, {"disks": {"system": {"size": "9MiB"}}}, ["mine"]),
    ({"system": {"source": "v"}}, {"disks": {"system": {"source": None}}}, ["mine"]),
]


@pytest.mark.parametrize(("profile", "more", "images"), IMAGES)
def test_the_machines_image_wins_over_its_profiles(profile: Options, more: Options, images: list[str | None]) -> None:
    made = read({"disk_profiles": {"p": profile}}, image="mine", disk_profile="p", **more)
    assert [disk.image for disk in made.disks] == images


NO_PLACE: list[tuple[Options, Options, str]] = [
    ({"system": {"source": "v"}}, {}, "it is for the first disk, 'system', and that has disk_profiles.p.system.source"),
    (
        {"system": {"backing": "v"}},
        {},
        "it is for the first disk, 'system', and that has disk_profiles.p.system.backing",
    ),
    (
        {"system": {}},
        {"disks": [{"system": {"source_file": "v"}}]},
        "it is for the first disk, 'system', and that has ",
    ),
    ({}, {"disks": [{"name": "a", "image": "b"}]}, "it is for the first disk, 'a', and that has vms[1].disks[0].image"),
    ({"cd": {"device": "cdrom"}}, {}, "the machine has no disk for the image"),
    ({}, {"disk_profile": "none"}, "the machine has no disk for the image"),
    ({}, {"disk_profile": None}, "the machine has no disk for the image"),
]


@pytest.mark.parametrize(("profile", "more", "words"), NO_PLACE)
def test_an_image_that_no_disk_can_have_is_refused(profile: Options, more: Options, words: str) -> None:
    given = {"disk_profile": "p", **more}
    assert refusal({"disk_profiles": {"p": profile}}, image="mine", **given).startswith(f"vms[1].image: {words}")


def test_a_raw_disk_is_a_copy_of_its_image() -> None:
    disk = read(image="i", disks={"system": {"format": "raw"}}).disks[0]
    assert (disk.format, disk.clone, disk.image) == ("raw", None, "i"), (
        "the pool decides: virt_init copies in one of files"
    )
    assert read(disks={"system": {"format": "raw"}}).disks[0].clone is None


def test_null_unsets_what_the_profile_says() -> None:
    profiles = {
        "disk_profiles": {
            "p": {"a": {"size": "5MiB", "image": "i", "format": "raw", "cache": "none", "clone": "copy"}}
        },
        "nic_profiles": {"p": {"e": {"network": "lan", "portgroup": "x", "mtu": 1400, "model": "e1000"}}},
    }
    plain = read(profiles, disk="p", nic="p", disks={"a": {"size": None, "format": None, "overlay_image": None}})
    assert (plain.disks[0].size_mib, plain.disks[0].format, plain.disks[0].clone) == (None, None, None)
    bare = read(profiles, disk="p", disks={"a": {"image": None, "cache": None}})
    assert (bare.disks[0].image, bare.disks[0].size_mib, bare.disks[0].options) == (None, 5, {})
    nic = read(profiles, nic="p", nics=[{"name": "e", "network": None, "model": None, "mtu": None}]).nics[0]
    assert (nic.type, nic.source, nic.model, nic.mtu, nic.options) == ("bridge", "br0", "virtio", None, {})
    assert read(profiles, nic="p", nics={"e": {"bridge": None}}).nics[0].source == "lan"


@pytest.mark.parametrize("word", [None, "none", "None", "NONE"])
def test_no_profile_in_every_spelling(word: str | None) -> None:
    made = read({"disk_profiles": {"none": []}}, disk_profile=word, nic=word)
    assert (made.disks, made.nics) == ((), ())


def test_a_profile_called_none_is_told_apart_from_no_profile() -> None:
    profiles = {"disk_profiles": {"none": DISKS["p"]}}
    assert read(profiles, disk_profile=None).disks == ()
    for word in ("none", "None"):
        assert refusal(profiles, disk=word).startswith(
            f"vms[1].disk: {word!r} means no profile, and there is a profile"
        )
    assert read(profiles).disks[0].size_mib == 8192


PLACES: list[tuple[Options, Options, str]] = [
    (
        {"nic_profiles": {"p": {"eth0": {"model": "pcnet"}}}},
        {"nic": "p", "nics": [{"name": "eth0", "mac": "52:54:00:00:00:01"}]},
        "nic_profiles.p.eth0.model: 'pcnet' is not a choice",
    ),
    (
        {"disk_profiles": {"p": [{"name": "a", "size": "x"}]}},
        {"disk": "p", "disks": [{"name": "a", "pool": "y"}]},
        "disk_profiles.p[0].size: 'x' is not a size",
    ),
    (
        {"disk_profiles": {"virt": {"disk": {"p": [{"a": {"size": "x"}}]}}}},
        {"disk": "p"},
        "disk_profiles.virt.disk.p[0].a.size: 'x' is not a size",
    ),
    ({}, {"nics": [{"name": "eth0", "bridge": "a b"}]}, "vms[1].nics[0].bridge: 'a b' is not a name"),
    ({}, {"interfaces": {"eth0": {"model": "x"}}}, "vms[1].interfaces.eth0.model: 'x' is not a choice"),
    ({}, {"disks": [{"name": "a", "overlay_image": "perhaps"}]}, "vms[1].disks[0].overlay_image: 'perhaps' is neither"),
    ({}, {"disks": [{"name": "a", "source_file": []}]}, "vms[1].disks[0].source_file: [] is not a string"),
    ({}, {"disks": [{"name": "a", "iothread_id": "x"}]}, "vms[1].disks[0].iothread_id: 'x' is not allowed"),
    ({}, {"memory": None, "mem": "lots"}, "vms[1].mem: 'lots' is not a size"),
    ({}, {"disk": "x"}, "vms[1].disk: unknown disk profile 'x'"),
    (
        {},
        {"disks": [{"name": "cd", "device": "cdrom", "source": "x.iso", "size": "5MiB"}]},
        "vms[1].disks[0].size: a cdrom has no size. Leave it out",
    ),
    (
        {},
        {"disks": [{"name": "cd", "device": "cdrom", "size": "5MiB"}]},
        "vms[1].disks[0].size: a cdrom has no size. Name a",
    ),
    (
        {},
        {"disks": [{"name": "cd", "device": "cdrom", "overlay_image": True}]},
        "vms[1].disks[0].overlay_image: a cdrom has no overlay_image",
    ),
    (
        {"nic_profiles": {"p": {"eth0": {"mac": "52:54:00:00:00:01"}, "eth1": {"mac": "52:54:00:00:00:01"}}}},
        {"nic": "p"},
        "nic_profiles.p.eth1.mac: nics 'eth0' and 'eth1' have the same MAC address",
    ),
    (
        {},
        {"disks": [{"name": "a", "size": "1GiB", "boot_order": 1}], "nics": [{"name": "e", "boot_order": 1}]},
        "vms[1].nics[0].boot_order: devices 'a' and 'e' have the same boot_order 1",
    ),
    (
        {},
        {"nics": [{"name": "e", "bridge": "a", "source": "b"}]},
        "vms[1].nics[0]: bridge and source are given together",
    ),
    (
        {},
        {"disks": [{"name": "a", "source_file": "v", "source": "w"}]},
        "vms[1].disks[0]: source_file and source are given together",
    ),
    (
        {},
        {"disks": [{"name": "a", "backing_store_format": "raw"}]},
        "vms[1].disks[0].backing_store_format: it is the fo",
    ),
    (
        {},
        {"disks": [{"name": "cd", "device": "cdrom", "model": "ide"}]},
        "vms[1].disks[0].model: disks on an IDE bus are not supported",
    ),
    (
        {},
        {"disks": [{"name": "a", "pool": "/var/lib/libvirt/images"}]},
        "vms[1].disks[0].pool: '/var/lib/libvirt/images' is a directory, not the name of a storage pool",
    ),
]


@pytest.mark.parametrize(("profiles", "more", "words"), PLACES)
def test_what_is_refused_is_named_as_the_user_wrote_it(profiles: Options, more: Options, words: str) -> None:
    assert refusal(profiles, **more).startswith(words)


def test_an_override_of_another_spelling_takes_the_place_of_the_profiles_word() -> None:
    profiles = {"disk_profiles": {"p": {"a": {"image": "i", "clone": "copy", "iothread": 1}}}}
    disk = read(profiles, disk="p", disks={"a": {"overlay_image": True, "iothread_id": 2}}, cpu={"iothreads": 2}).disks[
        0
    ]
    assert (disk.clone, disk.options) == ("overlay", {"iothread": 2})


@pytest.mark.parametrize(
    "shape", [[{"a": {"size": "1MiB"}, "b": {"size": "2MiB"}}], [{"a": {"size": "1MiB"}}, {"b": {"size": "2MiB"}}]]
)
def test_one_dash_may_have_several_disks(shape: t.Any) -> None:
    made = read({"disk_profiles": {"p": shape}}, disk="p")
    assert [(disk.name, disk.size_mib) for disk in made.disks] == [("a", 1), ("b", 2)]


def test_one_dash_may_have_several_nics() -> None:
    made = read(nic=None, nics=[{"eth0": {"bridge": "a"}, "eth1": {"bridge": "b"}}])
    assert [(nic.name, nic.source) for nic in made.nics] == [("eth0", "a"), ("eth1", "b")]


def test_two_devices_under_one_dash_with_options_of_either_need_a_second_dash() -> None:
    words = refusal(disks=[{"system": None, "size": "1MiB", "data": None}])
    assert words.startswith("vms[1].disks[0]: 'system' and 'data' are devices under one dash")
    assert words.endswith("Put a dash before 'data', and indent the options of each below its name")
    # Options that are mappings are no devices.
    assert "the nic has no name" in refusal(nics=[{"bandwidth": {}, "filter": {}}])
    assert "nics[0]: the nic has no name" in refusal(nics=[{"bridge": "br0"}])
    assert "nics[0]: the nic has no name" in refusal(nics=[{"name": None}])
    assert "disks: the disk has no name" in refusal(disks={"name": None})


def test_a_null_beside_a_name_that_is_a_key_is_an_option() -> None:
    made = read(
        {"disk_profiles": {"p": {"a": {"image": "i", "size": "5MiB"}}}}, disk="p", disks=[{"a": None, "image": None}]
    )
    assert (made.disks[0].image, made.disks[0].size_mib) == (None, 5)


def test_a_directory_for_a_pool_is_told_the_name_of_the_pool_there() -> None:
    with pytest.raises(DirectoryAsPoolError) as caught:
        read(disks=[{"name": "a", "pool": "/var/lib/libvirt/images/"}])
    assert str(with_pool_named(caught.value, {"/srv": "other"})).endswith("lists the pools with their names")
    assert str(with_pool_named(caught.value, {"/var/lib/libvirt/images": "default"})) == (
        "vms[1].disks[0].pool: '/var/lib/libvirt/images' is a directory, not the name of a storage pool. "
        "Set pool: default, the pool at that path"
    )


ON = "YAML reads on and yes without quotes as true."
# Keys that YAML does not read as texts, in the places where they may stand.
NOT_TEXTS: list[tuple[dict[t.Any, t.Any], str]] = [
    ({True: "hv1"}, f"vms[1]: unknown option 'true'. {ON} The option for the hypervisor is hypervisor"),
    ({"on": "hv1"}, "vms[1]: unknown option 'on'. The option for the hypervisor is hypervisor"),
    ({None: 1}, "vms[1]: unknown option 'null'. YAML reads ~ and an empty key as null. Known: anti_affinity, "),
    ({5: 1}, "vms[1]: unknown option '5'. Known: anti_affinity, "),
    ({"cpu": {True: 1}}, f"vms[1].cpu: unknown option 'true'. {ON} Known: cache, "),
    ({"cpu": {"true": 1}}, f"vms[1].cpu: unknown option 'true'. {ON} Known: cache, "),
    ({"cpu": {1.5: 1}}, "vms[1].cpu: unknown option '1.5'. Known: cache, "),
    ({"seed": {False: 1}}, "vms[1].seed: unknown option 'false'. YAML reads off and no without quotes as false. Known"),
    ({"disks": {True: {}}}, f"vms[1].disks.true: 'true' is not a name. {ON} Write the name in quotes"),
    ({"tags": [datetime.date(2026, 1, 2)]}, "vms[1].tags[0]: '2026-01-02' is not a name. Write the name in quotes"),
    ({"disks": [{1.5: {}}]}, "vms[1].disks[0].1.5: '1.5' is not a name. Write the name in quotes"),
    ({"disks": [{"name": "a", None: 1}]}, "vms[1].disks[0]: unknown option 'null'. YAML reads ~ and an empty key as n"),
    ({"nics": {"a": {True: 1}}}, f"vms[1].nics.a: unknown option 'true'. {ON} Known: accept_ra, "),
]


@pytest.mark.parametrize(("more", "words"), NOT_TEXTS)
def test_a_key_that_is_no_text_is_named_as_yaml_writes_it(more: Options, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_machine({**BASE, **more}, where="vms[1]")
    assert str(caught.value).startswith(words)
