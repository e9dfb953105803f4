# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules accept, the schema accepts; and a key that no table has, neither of them."""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import BYTES_PER_UNIT
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.description import HARDWARE
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model import strategies
from ansible_collections.brine.virt.tests.unit.plugins.modules.test_virt_init_options import (
    BACKING,
    BESIDE,
    DISK,
    NIC,
    PROFILES,
    SOURCE,
    VALUES,
    names,
)
from ansible_collections.brine.virt.tests.unit.schema.editor import SCHEMA, as_json, complaints_of_machine

pytestmark = pytest.mark.medium

MACHINE = {"name": "a", "vcpus": 2, "memory": 512}
FIELDS = {field.key: strategies.of_field(field) for field in HARDWARE}
patient = settings(max_examples=settings().max_examples // 2, suppress_health_check=list(HealthCheck))
Values = dict[str, t.Any]


def accepted(machine: t.Any, **profiles: t.Any) -> bool:
    try:
        read_machine(machine, **profiles)
    except InputError:
        return False
    return True


def must_fit(machine: Values, **profiles: t.Any) -> None:
    if accepted(machine, **profiles):
        assert complaints_of_machine(machine, **profiles) == []


@pytest.mark.parametrize("option", sorted(VALUES))
def test_every_option_of_the_tests_of_virt_init(option: str) -> None:
    for value in VALUES[option]:
        machine = {**MACHINE, **BESIDE.get(option, {}), option: value}
        assert accepted(machine, **PROFILES)
        must_fit(machine, **PROFILES)


@pytest.mark.parametrize("option", FIELDS)
@given(data=st.data())
@patient
def test_what_the_tables_accept(option: str, data: st.DataObject) -> None:
    must_fit({**MACHINE, option: data.draw(FIELDS[option])})


@given(disks=names(st.one_of(DISK, SOURCE, BACKING)), nics=names(NIC))
@patient
def test_devices_in_every_shape(disks: Values, nics: Values) -> None:
    for shaped in shapes(disks):
        must_fit({**MACHINE, "disk_profile": "p"}, disk_profiles={"p": shaped})
    for shaped in shapes(nics):
        must_fit({**MACHINE, "nics": shaped})
        must_fit({**MACHINE, "nic": "p"}, nic_profiles={"virt.nic": {"p": shaped}, "master": "salt"})


def shapes(devices: Values) -> list[t.Any]:
    """One list of devices in all its shapes."""
    flat = [{"name": name, **keys} for name, keys in devices.items()]
    indented = [{name: None, **keys} for name, keys in devices.items() if keys]
    return [devices, flat, [{name: keys} for name, keys in devices.items()], [devices] if devices else [], indented]


# Values that may be right somewhere, in the place of others.
SAMPLES: list[t.Any] = [
    *(None, True, False, -2, -1, 0, 1, 2, 11, 64, 2000, 70000, 0.5, 1.5, 2.0),
    *("", "x", "1", "-1", " 0 ", "64", "yes", "Off", " TRUE", "none", "a b", "A-b.c_d", "0644", "2.0", "1_000"),
    *(
        "8GiB",
        "1.5 t",
        "0-3,^1",
        "3,8",
        "/srv/a",
        "/srv/a/",
        "zone=a",
        "zone/x",
        "example.org",
        "Europe/Vienna",
        "3600",
    ),
    *("fe80::1", "fe80::1%eth0", "192.0.2.1", "192.0.2.0/24", "192.0.2.9/255.255.255.0", "2001:db8::/64", "default"),
    *("52-54-00-11-22-33", "52:54:00:aa:BB:0c", "53:54:00:11:22:33", "0000:03:00.0", "pci_0000_03_00_0", "046D:C52B"),
    *(
        "echo 1\nexit",
        "ssh-ed25519 AAAAC3Nz x",
        "#cloud-config\n{}",
        "#!/bin/sh",
        "<sound model='ac97'/>",
        "hd network",
    ),
    *(
        "debian",
        "ansible",
        "qcow2",
        "virtio",
        "bridge",
        "unmap",
        "reset",
        "utc",
        "vnc",
        "up",
        "root:root",
        "big",
        "dual",
    ),
    *("$6$abcdefgh$ijklmnopqrstuvwxyz", "@tools", "C.UTF-8", "802.1Qbg", "host-model", "custom", "DEFAULT", "None"),
    *([], {}, [[]], [{}], [None], ["x"], ["x", 1], [True], [1.5], ["192.0.2.1"], ["fe80::1/64"], ["a b"]),
    *({"x": 1}, {"x": None}, {"x": True}, {"x": "a"}, {"x": {}}, [{"x": 1}]),
    *({"version": 2}, {"network": {"version": 1}}),
]
# What else has to be there for a key to be read at all.
BESIDE_IT: dict[str, t.Any] = {
    **{"cpuset": "0", "policy": "require", "value": 10, "mode": "strict", "nodeset": "0", "memory": 512, "vcpus": 1},
    **{"scheduler": "batch", "source": "/srv", "tag": "x", "to": "default", "via": "192.0.2.1", "path": "/a"},
    **{"name": "m", "size": "2MiB", "device": "hd", "volume": "v", "version": 2, "id": 1},
}
NAMED = {"timers": "hpet", "features": "vmx"}


def wrap_in_mapping(wrap: t.Callable[[t.Any], t.Any], needed: Values, name: str, value: t.Any) -> t.Any:
    return wrap({**needed, name: value})


def places(schema: t.Any, wrap: t.Callable[[t.Any], t.Any], key: str = "") -> Iterator[t.Callable[[t.Any], t.Any]]:
    """Every place inside of a schema at which a value may stand, as what puts one there."""
    yield wrap
    for part in (schema, *schema.get("anyOf", ())):
        needed = {name: BESIDE_IT[name] for name in part.get("required", ()) if "properties" in part}
        for name, inner in part.get("properties", {}).items():
            yield from places(inner, functools.partial(wrap_in_mapping, wrap, needed, name), name)
        if isinstance(part.get("items"), dict):
            yield from places(part["items"], lambda value: wrap([value]))
        if isinstance(part.get("additionalProperties"), dict):
            yield from places(part["additionalProperties"], lambda value: wrap({NAMED.get(key, "0"): value}))


def values_for(option: str) -> Iterator[t.Any]:
    """Every sample at every place of an option."""
    schema = SCHEMA["$defs"]["machine"]["properties"][option]
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name in ("disks", "nics"):
        wraps = places(SCHEMA["$defs"][name[:-1]], lambda value: {"system": value})
        yield from SAMPLES
    else:
        wraps = places(SCHEMA["$defs"].get(name, schema), lambda value: value)
    yield from (wrap(sample) for wrap in wraps for sample in SAMPLES)


# Those that are only other names are described by the same part of the schema.
OPTIONS = sorted(
    option
    for option, schema in SCHEMA["$defs"]["machine"]["properties"].items()
    if "machine/properties" not in schema.get("$ref", "")
)
# Salt's `cpu` takes the place of vcpus, as a number or with these keys.
OF_VCPUS = {"current", "maximum", "cpuset", "placement"}
# To Python, true is 1.
BUT = [{"network": {"version": True}}, {"network": {"network": {"version": True}}}]


@pytest.mark.slow
@pytest.mark.parametrize("option", OPTIONS)
def test_whatever_a_module_accepts_at_a_place(option: str) -> None:
    part = Draft202012Validator({"$ref": f"#/$defs/machine/properties/{option}", "$defs": SCHEMA["$defs"]})
    base = {**MACHINE, **BESIDE.get(option, {})}
    for value in values_for(option):
        if option == "cpu" and (not isinstance(value, dict) or OF_VCPUS & set(value)):
            found = accepted({"name": "a", "memory": 512, "cpu": value})
        else:
            found = accepted({**base, option: value}, **PROFILES)
        assert not found or value in BUT or part.is_valid(as_json(value)), value


def paths_of_mappings(value: t.Any) -> list[Values]:
    """All mappings in a value whose keys are those of a table."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [mapping for item in inside for mapping in paths_of_mappings(item)]
    return [*found, value] if isinstance(value, dict) else found


@pytest.mark.parametrize("option", sorted(set(FIELDS) - {"host_devices"}))
@given(data=st.data())
@patient
def test_a_misspelled_key_is_refused(option: str, data: st.DataObject) -> None:
    machine = {**MACHINE, option: data.draw(FIELDS[option])}
    assume(accepted(machine))
    mappings = paths_of_mappings(machine[option])
    assume(mappings)
    data.draw(st.sampled_from(mappings))["no such key"] = {}
    assert not accepted(machine)
    assert complaints_of_machine(machine)


@pytest.mark.parametrize("unit", ["", *BYTES_PER_UNIT])
def test_every_unit_of_a_size(unit: str) -> None:
    for text in (f"90000000{unit}", f"90000000 {unit.lower()}", f"90000000.5{unit.capitalize()}"):
        machine = {**MACHINE, "memory": text}
        assert not complaints_of_machine(machine)
        assert complaints_of_machine({**MACHINE, "memory": f"{text}x"})
