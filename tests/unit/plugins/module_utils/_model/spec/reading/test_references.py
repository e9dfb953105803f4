# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one option needs of another one is refused in check mode already, where libvirt would refuse it in the run."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine

BASE = {"name": "a", "vcpus": 2, "memory": 64, "disk_profile": "none", "nic_profile": "none"}
CELLS = [{"cpus": "0", "memory": "32MiB"}, {"cpus": "1", "memory": "32MiB"}]
SPECIAL = {"mode": "strict", "nodeset": "0"}
USB = {"name": "c", "device": "cdrom", "model": "usb"}


def disk(**options: t.Any) -> dict[str, t.Any]:
    return {"disks": [{"name": "d", "size": "1MiB", **options}]}


REFUSED: list[tuple[dict[str, t.Any], str, dict[str, t.Any]]] = [
    # A request, the place that is named, and what would be right.
    (
        {"cpu": {"mode": "host-model", "migratable": False}},
        "cpu.migratable",
        {"cpu": {"mode": "host-passthrough", "migratable": False}},
    ),
    (
        {"cpu_mode": "host-model", "cpu": {"migratable": True}},
        "cpu.migratable",
        {"cpu_mode": "maximum", "cpu": {"migratable": True}},
    ),
    (
        {"cpu": {"model": "EPYC", "cache": {"mode": "passthrough"}}},
        "cpu.cache.mode",
        {"cpu": {"cache": {"mode": "passthrough"}, "mode": "maximum"}},
    ),
    (disk(iothread=2), "disks[0].iothread", {**disk(iothread=2), "cpu": {"iothreads": 2}}),
    ({**disk(iothread=2), "cpu": {"iothreads": 1}}, "disks[0].iothread", {**disk(iothread=1), "cpu": {"iothreads": 1}}),
    (
        {"cpu": {"tuning": {"iothreadpin": {1: "0"}}}},
        "cpu.tuning.iothreadpin.1",
        {"cpu": {"iothreads": 1, "tuning": {"iothreadpin": {1: "0"}}}},
    ),
    (disk(io="native"), "disks[0].io", disk(io="native", cache="none")),
    (disk(io="native", cache="default"), "disks[0].io", disk(io="native", cache="directsync")),
    (
        {"memory": {"maximum": 64, "max": 256}},
        "memory.max",
        {"memory": {"maximum": 64, "max": 256}, "cpu": {"numa": CELLS}},
    ),
    (
        {"numatune": {"memnodes": {0: SPECIAL}}},
        "numatune.memnodes.0",
        {"numatune": {"memnodes": {0: SPECIAL}}, "cpu": {"numa": CELLS}},
    ),
    (
        {"numatune": {"memnodes": {2: SPECIAL}}, "cpu": {"numa": CELLS}},
        "numatune.memnodes.2",
        {"numatune": {"memnodes": {1: SPECIAL}}, "cpu": {"numa": CELLS}},
    ),
    (
        {"vcpus": {"maximum": 2, "placement": "static"}, "numatune": {"memory": {"placement": "auto"}}},
        "vcpus.placement",
        {"vcpus": {"maximum": 2, "placement": "static", "cpuset": "0"}, "numatune": {"memory": {"placement": "auto"}}},
    ),
    (
        {"vcpus": {"maximum": 2, "placement": "static"}, "numatune": {"memory": {"placement": "auto"}}},
        "vcpus.placement",
        {
            "vcpus": {"maximum": 2, "placement": "static"},
            "numatune": {"memory": {"placement": "auto"}},
            "cpu": {"tuning": {"emulatorpin": "0"}},
        },
    ),
    (
        {"cpu": {"cache": {"mode": "emulate", "level": 2}}},
        "cpu.cache.level",
        {"cpu": {"cache": {"mode": "emulate", "level": 3}}},
    ),
    (
        {"cpu": {"mode": "maximum", "cache": {"mode": "passthrough", "level": 3}}},
        "cpu.cache.level",
        {"cpu": {"mode": "maximum", "cache": {"mode": "passthrough"}}},
    ),
    ({"vcpus": 1, "cpu": {"numa": CELLS}}, "cpu.numa[1].cpus", {"cpu": {"numa": CELLS}}),
    (
        {"cpu": {"tuning": {"vcpusched": [{"vcpus": "1-2", "scheduler": "batch"}]}}},
        "cpu.tuning.vcpusched",
        {"cpu": {"tuning": {"vcpusched": [{"vcpus": "0-1", "scheduler": "batch"}]}}},
    ),
    (
        {"cpu": {"tuning": {"vcpupin": {0: "0-3", 2: "0"}}}},
        "cpu.tuning.vcpupin.2",
        {"vcpus": 3, "cpu": {"tuning": {"vcpupin": {0: "0-3", 2: "0"}}}},
    ),
    ({"disks": [USB]}, "disks[0].model", {"disks": [{**USB, "source": "x.iso"}]}),
    (
        {"disks": [{**USB, "source": "none"}]},
        "disks[0].source",
        {"disks": [{**USB, "source": "none", "model": "sata"}]},
    ),
    (
        {"memory": {"maximum": 64, "soft_limit": "8EiB"}},
        "memory.soft_limit",
        {"memory": {"maximum": 64, "soft_limit": "7EiB"}},
    ),
    ({"serials": ["pty"] * 5}, "serials", {"serials": [*["pty"] * 4, {"type": "pty", "target_type": "pci-serial"}]}),
    (
        {"consoles": [{"type": "udp", "port": 25999}]},
        "consoles[0]",
        {"consoles": [{"type": "udp", "port": 25999, "target_type": "virtio"}]},
    ),
    (
        {"consoles": [{"type": "file", "path": "/var/log/a"}]},
        "consoles[0]",
        {"consoles": [{"type": "file", "path": "/var/log/a"}], "serials": [{"type": "file", "path": "/var/log/a"}]},
    ),
    (
        {"consoles": [{"type": "pty", "target_type": "virtio", "target_port": 4}]},
        "consoles[0].target_port",
        {"consoles": ["pty", {"type": "pty", "target_type": "virtio", "target_port": 1}]},
    ),
    ({"consoles": [{"path": "/run/a"}], "serials": [{"path": "/run/b"}]}, "consoles[0]", {"consoles": ["pty"]}),
    (
        {"consoles": [{"log": "/var/log/a"}]},
        "consoles[0]",
        {"consoles": [{"log": "/var/log/a"}], "serials": [{"log": "/var/log/a"}]},
    ),
    ({"consoles": ["pty"], "serials": []}, "consoles[0]", {"consoles": [], "serials": []}),
    (
        {"consoles": ["pty", "pty"]},
        "consoles[1]",
        {"consoles": ["pty", {"target_type": "virtio"}]},
    ),
    (
        {"consoles": [{"target_type": "virtio"}, {"target_type": "serial"}]},
        "consoles[1]",
        {"consoles": [{"target_type": "virtio"}]},
    ),
]


@pytest.mark.parametrize(("asked", "where", "right"), REFUSED)
def test_it_is_refused_at_its_option(asked: dict[str, t.Any], where: str, right: dict[str, t.Any]) -> None:
    with pytest.raises(InputError) as caught:
        read_machine({**BASE, **asked})
    assert caught.value.where == where
    read_machine({**BASE, **right})


HAVE: dict[str, t.Any] = {
    "vcpus": {"maximum": 1, "current": 1},
    "memory": {"maximum": 64, "current": 64, "max": 256, "slots": 16},
    "cpu": {"mode": "host-model", "migratable": True, "iothreads": 1, "numa": ({"cpus": "0-1", "memory": 64},)},
    "serials": ({"type": "pty"},) * 5,
    "consoles": ({"type": "udp", "port": 2},),
    "disks": {"d": {"device": "disk", "model": "virtio", "io": "native"}, "c": {"device": "cdrom", "model": "usb"}},
}


@pytest.mark.parametrize(
    "asked",
    [
        {"cpu": {"migratable": True}},
        {"cpu": {"numa": [{"cpus": "0-1", "memory": "64MiB"}]}},
        {"memory": {"maximum": 64, "max": 256}},
        {"serials": ["pty"] * 5},
        {"consoles": [{"type": "udp", "port": 2}]},
        # Its threads may have any numbers.
        {"disks": [{"name": "d", "iothread": 7}]},
        {"disks": [{"name": "d", "io": "native", "discard": "unmap"}]},
        {"disks": [{"name": "c"}]},
    ],
)
def test_what_a_machine_has_it_may_keep(asked: dict[str, t.Any]) -> None:
    read_machine({"name": "a", **asked}, existing=lambda _name: Existing(HAVE))


FOUR: dict[str, t.Any] = {"vcpus": {"maximum": 4, "current": 4}, "memory": {"maximum": 64, "current": 64}}
BATCH = {"vcpus": "0", "scheduler": "batch"}


@pytest.mark.parametrize(
    ("cpu", "where", "right"),
    [
        (
            {"tuning": {"vcpusched": (BATCH, {**BATCH, "vcpus": "3"})}},
            "cpu.tuning.vcpusched",
            {"tuning": {"vcpusched": [BATCH]}},
        ),
        (
            {"numa": ({"cpus": "0-3", "memory": 64},)},
            "cpu.numa[0].cpus",
            {"numa": [{"cpus": "0-1", "memory": "64MiB"}]},
        ),
        # libvirt takes it out by itself.
        ({"tuning": {"vcpupin": {3: {"cpuset": "0"}}}}, None, {}),
    ],
)
def test_fewer_vcpus_than_something_that_stays_names(
    cpu: dict[str, t.Any], where: str | None, right: dict[str, t.Any]
) -> None:
    def read(**asked: t.Any) -> None:
        read_machine({"name": "a", "vcpus": 2, **asked}, existing=lambda _name: Existing({**FOUR, "cpu": cpu}))

    if where is not None:
        with pytest.raises(InputError) as caught:
            read()
        assert caught.value.where == where
    read(cpu=right)


@pytest.mark.parametrize("row", [{}, {"scheduler": "batch"}, BATCH])
def test_a_scheduler_may_be_named_in_part(row: dict[str, t.Any]) -> None:
    have = Existing({**FOUR, "cpu": {"tuning": {"vcpusched": (BATCH, {**BATCH, "vcpus": "1"})}}})
    asked = {"cpu": {"tuning": {"vcpusched": [row]}}}
    machine = read_machine({"name": "a", **asked}, existing=lambda _name: have)
    assert machine.hardware["cpu"]["tuning"]["vcpusched"] == (BATCH,)


def test_a_distance_may_be_named_in_part() -> None:
    cells = ({"cpus": "0-1", "memory": 32, "distances": {1: {"value": 21}}}, {"cpus": "2-3", "memory": 32})
    asked = [{"cpus": "0-1", "memory": "16MiB", "distances": {1: {}}}, {"cpus": "2-3", "memory": "48MiB"}]
    have = Existing({**FOUR, "cpu": {"numa": cells}})
    read_machine({"name": "a", "cpu": {"numa": asked}}, existing=lambda _name: have)


def test_a_fragment_may_bring_what_an_option_names() -> None:
    read_machine({**BASE, **disk(iothread=2), "xml": "<iothreads>2</iothreads>"})
