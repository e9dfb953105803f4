# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of virt_init as Ansible hands them on: one machine, or the defaults of a list; and what can be pasted."""

from __future__ import annotations

import functools
import types
import typing as t

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts.guest_capabilities import GuestCapabilities
from ansible_collections.brine.virt.plugins.module_utils._model.as_text import declared
from ansible_collections.brine.virt.plugins.module_utils._model.spec.disk import DISK_OPTIONS
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import MACHINE_RULES, Machine
from ansible_collections.brine.virt.plugins.module_utils._model.spec.nic import NIC_OPTIONS
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._model.withheld import HOST_NAME
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import read_specs_here
from ansible_collections.brine.virt.plugins.modules import virt_init, virt_profile_info
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model import strategies

pytestmark = pytest.mark.medium

# For every option of a machine two values that make different machines.
VALUES: dict[str, tuple[t.Any, t.Any]] = {
    "vcpus": (2, 3),
    "memory": (1024, "2GiB"),
    "cpu": ({"mode": "host-model"}, {"mode": "maximum"}),
    "cpu_mode": ("host-model", "maximum"),
    "numatune": ({"memory": {"mode": "strict", "nodeset": "0"}}, {"memory": {"mode": "strict", "nodeset": "1"}}),
    "features": ({"kvm-hint-dedicated": True}, {"kvm-hint-dedicated": False}),
    "machine_type": ("q35", "pc"),
    "firmware": ("efi", "bios"),
    "secure_boot": (True, False),
    "tpm": (True, False),
    "boot": ({"devices": ["hd"]}, {"devices": ["network"]}),
    "clock": ({"offset": "utc"}, {"offset": "localtime"}),
    "events": ({"reboot": "destroy"}, {"reboot": "restart"}),
    "serials": ([{"type": "pty"}], [{"type": "unix", "path": "/run/a"}]),
    "consoles": ([{"type": "pty"}], [{"type": "unix", "path": "/run/a", "target_type": "virtio"}]),
    "graphics": ("vnc", "spice"),
    "video": ("virtio", "none"),
    "rng": (True, False),
    "watchdog": (True, False),
    "shared_folders": ([{"source": "/srv", "tag": "a"}], [{"source": "/srv", "tag": "b"}]),
    "host_devices": (["0000:01:00.0"], ["0000:02:00.0"]),
    "xml": ("<devices><sound model='ich9'/></devices>", "<devices><sound model='ac97'/></devices>"),
    "image": ("debian", "fedora"),
    "clone": ("overlay", "copy"),
    "disk_profile": ("big", "none"),
    "disks": ([{"name": "data", "size": 16}], [{"name": "data", "size": 32}]),
    "nic_profile": ("dual", "none"),
    "nics": ([{"name": "eth0", "bridge": "a"}], [{"name": "eth0", "bridge": "b"}]),
    "seed": ({"user": "a"}, {"user": "b"}),
    "seed_policy": ("refresh", "keep"),
    "enable_vnc": (True, False),
    "enable_qcow": (True, False),
    "boot_dev": ("hd", "network"),
    "stop_on_reboot": (True, False),
    "state": ("stopped", "present"),
    "start": (False, True),
    "autostart": (True, False),
    "title": ("a", "b"),
    "description": ("a", "b"),
    "tags": (["a"], ["b"]),
    "labels": (["a"], ["b"]),
    "anti_affinity": (["a"], ["b"]),
    "order": (10, "none"),
    "delay_seconds": (30, 0),
    "variables": ({"a": 1}, {"a": 2}),
}
# What else a machine needs for an option to show.
BESIDE: dict[str, dict[str, t.Any]] = {
    "clone": {"image": "debian"},
    "enable_qcow": {"image": "debian"},
}
PROFILES: dict[str, t.Any] = {
    "disk_profiles": {"big": {"system": {"size": 99999}}},
    "nic_profiles": {"dual": {"eth0": {"bridge": "a"}, "eth1": {"bridge": "b"}}},
}


def specs(**task: t.Any) -> list[Machine]:
    """The machines of a task, by way of Ansible's own reading of its options."""
    result = ArgumentSpecValidator(virt_init.ARGUMENTS, mutually_exclusive=[("machines", "name")]).validate(task)
    assert result.error_messages == []
    return virt_init.read_specs(result.validated_parameters)


def base(option: str) -> dict[str, t.Any]:
    number = {} if option == "vcpus" else {"vcpus": 1}
    size = {} if option == "memory" else {"memory": 512}
    return {**number, **size, **BESIDE.get(option, {})}


def test_every_option_of_a_machine_has_its_values_here() -> None:
    assert set(VALUES) == set(virt_init.MACHINE_OPTIONS) - {"name"}
    # And a machine of a list has no option that the task lacks, but the one that only placement reads.
    assert set(MACHINE_RULES) - set(virt_init.MACHINE_OPTIONS) == {"hypervisor"}
    assert set(virt_init.MACHINE_OPTIONS) - set(MACHINE_RULES) == {
        "enable_vnc",
        "enable_qcow",
        "boot_dev",
        "stop_on_reboot",
    }


@pytest.mark.parametrize("option", sorted(VALUES))
def test_an_option_beside_machines_is_the_default_for_each(option: str) -> None:
    first, second = VALUES[option]
    listed = [{"name": "a", **base(option)}, {"name": "b", **base(option), option: second}]
    found = specs(machines=listed, **{option: first}, **PROFILES)
    (alone,) = specs(name="a", **base(option), **{option: first}, **PROFILES)
    (other,) = specs(name="b", **base(option), **{option: second}, **PROFILES)
    assert found == [alone, other]
    assert alone != specs(name="a", **base(option), **{option: second}, **PROFILES)[0]


def test_the_name_beside_machines_is_refused() -> None:
    result = ArgumentSpecValidator(virt_init.ARGUMENTS, mutually_exclusive=[("machines", "name")]).validate(
        {"name": "a", "machines": []}
    )
    assert result.error_messages == ["parameters are mutually exclusive: machines|name"]


MINE = {"name": "a", "vcpus": 1, "memory": 512}
YIELDING: list[tuple[dict[str, t.Any], dict[str, t.Any], dict[str, t.Any]]] = [
    ({"mem": 99}, {"memory": 512}, {"memory": 512}),
    ({"memory": 99}, {"memory": None, "mem": 512}, {"memory": 512}),
    ({"enable_vnc": True}, {"graphics": "spice"}, {"graphics": "spice"}),
    ({"graphics": "spice"}, {"enable_vnc": False}, {}),
    ({"interfaces": {"eth0": {"bridge": "x"}}}, {"nics": None}, {}),
    ({"cpu_mode": "maximum"}, {"cpu": {"mode": "host-model"}}, {"cpu": {"mode": "host-model"}}),
    ({"cpu": {"mode": "maximum"}}, {"cpu_mode": "host-model"}, {"cpu": {"mode": "host-model"}}),
    ({"image": "a"}, {"image": None}, {}),
    (
        {"image": "a"},
        {"disks": [{"name": "system", "image": "b"}]},
        {"disks": [{"name": "system", "image": "b"}]},
    ),
    ({"disk_profile": None}, {}, {"disk_profile": None}),
    ({"disk_profile": None}, {"disk": "default"}, {}),
    ({"seed": False}, {"seed": True}, {}),
    ({"seed": True}, {}, {}),
]


@pytest.mark.parametrize(("task", "own", "same"), YIELDING)
def test_a_machines_own_word_wins_in_any_spelling(
    task: dict[str, t.Any], own: dict[str, t.Any], same: dict[str, t.Any]
) -> None:
    assert specs(machines=[{**MINE, **own}], **task) == [read_machine({**MINE, **same})]


def test_a_default_that_is_wrong_is_named_where_it_stands() -> None:
    with pytest.raises(InputError, match=r"^interfaces\.eth0\.model: "):
        specs(machines=[MINE], interfaces={"eth0": {"model": "ne2k"}})
    with pytest.raises(InputError, match=r"^mem: 'lots' is not a size"):
        specs(name="a", vcpus=1, mem="lots")


def test_null_is_no_profile_in_a_task_as_in_a_list() -> None:
    for task in ({**MINE, "disk": None, "nic_profile": None}, {"machines": [{**MINE, "disk": None, "nic": None}]}):
        (machine,) = specs(**task)
        assert (machine.disks, machine.nics) == ((), ())


def test_a_directory_for_a_pool_is_told_the_pool_that_the_hypervisor_has_there(node_uri: str) -> None:
    task = {"uri": node_uri, **MINE, "disks": [{"name": "data", "size": "1MiB", "pool": "/var/lib/libvirt/images"}]}
    params = ArgumentSpecValidator({**virt_init.ARGUMENTS, "uri": {"type": "str"}}).validate(task).validated_parameters
    words = r"^disks\[0\]\.pool: .* is a directory.* Set pool: default, the pool at that path"
    with open_connection(node_uri) as conn, pytest.raises(InputError, match=words):
        read_specs_here(functools.partial(virt_init.read_specs, params), Hypervisor(conn, image_pool="images"))


def expanded(**options: t.Any) -> dict[str, t.Any]:
    result = ArgumentSpecValidator(virt_profile_info.ARGUMENTS).validate(options)
    assert result.error_messages == []
    return virt_profile_info.expand(result.validated_parameters)


def pasted_from(shown: t.Any) -> t.Any:
    return yaml.safe_load(yaml.safe_dump(shown, sort_keys=False))


def names(of: st.SearchStrategy[t.Any]) -> st.SearchStrategy[dict[str, t.Any]]:
    return st.dictionaries(st.sampled_from(["system", "data", "third"]), of, max_size=3)


DISK = st.fixed_dictionaries(
    {"size": st.integers(1, 10**6)},
    optional={
        **{field.key: strategies.of_field(field) for field in DISK_OPTIONS},
        "format": st.sampled_from(["qcow2", "raw"]),
        "pool": strategies.NAMES,
        "model": st.sampled_from(["virtio", "scsi", "sata", "usb"]),
        "image": strategies.NAMES,
    },
)
SOURCE = st.fixed_dictionaries({"source": strategies.NAMES, "device": st.sampled_from(["disk", "cdrom", "lun"])})
BACKING = st.fixed_dictionaries({"backing": strategies.NAMES}, optional={"size": st.integers(1, 10**6)})
NIC = st.fixed_dictionaries(
    {},
    optional={
        **{
            field.key: strategies.of_field(field)
            for field in NIC_OPTIONS
            if field.key not in ("mode", "portgroup", "queues")
        },
        "bridge": strategies.NAMES,
        "model": st.sampled_from(["virtio", "e1000"]),
        "addresses": st.just(["192.0.2.10/24"]),
        "nameservers": st.just("192.0.2.53"),
        "routes": st.just([{"to": "default", "via": "192.0.2.1"}]),
        "dhcp4": st.booleans(),
    },
)


@given(disks=names(st.one_of(DISK, SOURCE, BACKING)), nics=names(NIC), image=st.sampled_from([None, "debian"]))
@settings(max_examples=60, deadline=None)
def test_what_a_profile_expands_to_can_be_pasted(disks: t.Any, nics: t.Any, image: str | None) -> None:
    profiles: dict[str, t.Any] = {"disk_profiles": {"p": disks}, "nic_profiles": {"p": nics}}
    try:
        first = expanded(name="m", image=image, disk_profile="p", nic_profile="p", **profiles)
        made = read_machine({**MINE, "name": "m", "image": image, "disk": "p", "nic": "p"}, **profiles)
    except InputError:
        return
    pasted = pasted_from({"disks": first["disks"], "nics": first["nics"]})
    assert expanded(name="m", disk_profile=None, nic_profile="none", **pasted) == first
    again = read_machine({**MINE, "name": "m", "disk_profile": "none", "nic_profile": "none", **pasted})
    assert (again.disks, again.nics) == (made.disks, made.nics)
    # The record of a new machine, which check mode shows, makes the same machine too.
    record = pasted_from(declared(made))
    assert read_machine({**record, "disk_profile": None, "nic_profile": None}) == made


@pytest.mark.parametrize("option", sorted(set(VALUES) - {"seed", "seed_policy"}))
def test_the_record_of_a_new_machine_makes_that_machine(option: str) -> None:
    for value in VALUES[option]:
        made = read_machine({"name": "a", **base(option), option: value}, **PROFILES)
        record = pasted_from(declared(made))
        assert read_machine({**record, "disk_profile": None, "nic_profile": None}) == made


def test_an_image_that_is_none_is_named() -> None:
    virt_init.check_images({"a": {"volume": "a.qcow2"}, "b": {}})
    with pytest.raises(InputError, match=r"images\.c: 'x' is not an image\. Give what virt_image returned as image"):
        virt_init.check_images({"c": "x"})


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ({"name": "a", "state": "absent"}, "state: virt_init removes no machine. Remove it with virt_purge"),
        (
            {"machines": [MINE, {"name": "b", "state": "absent"}, {"name": "c"}], "vcpus": 1, "memory": 64},
            "machines[1].state: virt_init removes no machine. Remove it with virt_purge",
        ),
    ],
)
def test_no_machine_is_removed_here(task: dict[str, t.Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        specs(**task)
    assert str(caught.value) == sentence


NEW = {"vcpus": 1, "memory": 128, "disk_profile": "none", "nic_profile": "none", "seed": {"method": "none"}}


@pytest.mark.parametrize(("name", "called"), [("hv1", "hv1"), (None, "This hypervisor")])
def test_a_hypervisor_without_kvm_is_called_as_in_the_inventory(
    node_uri: str, monkeypatch: pytest.MonkeyPatch, name: str | None, called: str
) -> None:
    # The driver's guests are neither emulated nor anything else.
    monkeypatch.setattr(GuestCapabilities, "emulated", True)
    defaults = {option: argument.get("default") for option, argument in virt_init.ARGUMENTS.items()}
    params = {**defaults, **NEW, "name": "new1", HOST_NAME: name}
    warnings: list[str] = []
    module = t.cast("t.Any", types.SimpleNamespace(check_mode=True, warn=warnings.append))
    with open_connection(node_uri) as conn:
        virt_init.make_all_plans(module, params, conn, None)
    words = "has no KVM. New machines are emulated there, which is many times slower."
    assert [text for text in warnings if "KVM" in text] == [f"{called} {words}"]
