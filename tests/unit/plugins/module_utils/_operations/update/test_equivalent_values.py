# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What libvirt says in other words than it was given, or leaves out: the second run has nothing to do."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing, read_values
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.amounts import VCPUS
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import Machine
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import BASE, Host, one

pytestmark = pytest.mark.medium


def read_known(host: Host, options: dict[str, t.Any]) -> Machine:
    """The spec of machine a, read beside what it has already."""
    values = read_values(parse_xml(host.conn.lookupByName("a").XMLDesc(2)))
    return read_machine({**BASE, "name": "a", **options}, existing=lambda _name: Existing(values))


NIC = {"name": "eth0", "network": "n1"}


@pytest.mark.parametrize(
    "more",
    [
        {"disks": [{"name": "d", "size": "1MiB", "cache": "default"}]},
        {"nics": [{**NIC, "queues": 1}]},
        {"vcpus": {"maximum": 2, "cpuset": "0,1"}},
        {"vcpus": {"maximum": 2, "cpuset": "3,0-2,^1"}},
        {"numatune": {"memory": {"mode": "strict", "nodeset": "1,0"}}},
        {"description": "one\r\ntwo\rthree"},
        {"consoles": []},
        {"consoles": [], "serials": []},
        {"consoles": [{"type": "pty", "target_type": "virtio"}]},
        {"numatune": {"memory": {"mode": "strict", "nodeset": "0", "placement": "static"}}},
        {"graphics": {"type": "spice", "tls_port": 5999}},
        {"graphics": {"type": "spice", "tls": False}},
        {"video": {"model": "vga", "vram": 20000}},
        {"video": {"model": "virtio", "vram": 1025}},
        {
            "vcpus": 4,
            "cpu": {
                "tuning": {
                    "vcpusched": [
                        {"vcpus": "1-2", "scheduler": "fifo", "priority": 1},
                        {"vcpus": "0,3", "scheduler": "batch"},
                    ]
                }
            },
        },
        {"boot": {"devices": []}},
        {"boot": {"devices": [], "menu": True}, "disks": [{"name": "d", "size": "1MiB"}]},
        {"memory": {"maximum": 64, "hugepages": [{"size": "2MiB", "nodeset": "0"}]}},
        {
            "memory": "64MiB",
            "cpu": {"numa": [{"memory": "32MiB", "cpus": "0"}, {"memory": "32MiB", "cpus": "1"}]},
            "vcpus": 2,
        },
    ],
)
def test_a_second_run_has_nothing_to_do(host: Host, more: dict[str, t.Any]) -> None:
    host.conn.networkCreateXML("<network><name>n1</name><bridge name='vb1'/></network>")
    host.make({"name": "a", **more})
    assert not host.plan({"name": "a", **more})[0].steps
    # Nor where it is asked for later.
    host.make({"name": "b"})
    if "disks" not in more and "nics" not in more:
        host.make({"name": "b", **more})
        assert not host.plan({"name": "b", **more})[0].steps


@pytest.mark.parametrize("before", [None, {}, {"graphics": "vnc"}])
@pytest.mark.parametrize(("video", "card"), [(False, "none"), ("none", "none"), (True, "virtio"), ("qxl", "qxl")])
def test_a_console_has_the_card_that_is_asked_for_at_once(
    host: Host, before: dict[str, t.Any] | None, video: t.Any, card: str
) -> None:
    """libvirt gives a machine with a console and no card one of its own choice."""
    spec = {"name": "a", "graphics": "vnc", "video": video}
    if before is not None:
        host.make({"name": "a", **before})
    host.make(spec)
    models = parse_xml(host.conn.lookupByName("a").XMLDesc(2)).findall("devices/video/model")
    assert [model.get("type") for model in models] == [card]
    assert not host.plan(spec)[0].steps


def consoles(host: Host) -> list[str]:
    xml = parse_xml(host.conn.lookupByName("a").XMLDesc(2))
    return [target.get("type", "") for target in xml.iterfind("devices/console/target")]


def test_no_serial_device_and_a_console_on_one_are_refused_of_a_machine_that_has_both(host: Host) -> None:
    """libvirt would make a serial device of the console again."""
    host.make({"name": "a"})
    with pytest.raises(InputError, match=r"consoles\[0\]: the first console is the first serial device, and there is"):
        read_known(host, {"serials": [], "consoles": ["pty"]})


def test_a_console_on_another_device_is_still_compared(host: Host) -> None:
    host.make({"name": "a", "consoles": [{"type": "pty", "target_type": "virtio"}]})
    two = [{"type": "pty", "target_type": "virtio"}] * 2
    host.make({"name": "a", "consoles": two})
    assert consoles(host) == ["serial", "virtio", "virtio"]
    assert not host.plan({"name": "a", "consoles": two})[0].steps
    host.make({"name": "a", "consoles": []})
    assert consoles(host) == ["serial"]


@pytest.mark.parametrize("port", [0, 1])
def test_a_console_is_numbered_anew_when_libvirt_reads_it_again(host: Host, port: int) -> None:
    """As after its restart: it has put the first serial device before it."""
    spec = {"name": "a", "consoles": [{"type": "pty", "target_type": "virtio", "target_port": port}]}
    host.make(spec)
    for number in "01":
        xml = host.conn.lookupByName("a").XMLDesc(2)
        assert f"<target type='virtio' port='{number}'/>" in xml
        assert not host.plan(spec)[0].steps
        host.conn.defineXML(xml)


def test_numbers_outweigh_what_virsh_has_written_of_single_vcpus(host: Host) -> None:
    """As after ``virsh setvcpus --config --hotpluggable``: libvirt believes <vcpus> rather than the numbers."""
    host.make({"name": "a", "vcpus": {"maximum": 4, "current": 1}})
    single = "".join(f"<vcpu id='{n}' enabled='{'no' if n else 'yes'}' hotpluggable='yes'/>" for n in range(4))
    xml = host.conn.lookupByName("a").XMLDesc(2)
    first = xml.index("<vcpu ")
    host.conn.defineXML(f"{xml[:first]}<vcpus>{single.replace('yes', 'no', 0)}</vcpus>{xml[first:]}")
    assert "<vcpus>" in host.conn.lookupByName("a").XMLDesc(2)
    # What is not about their number leaves them.
    host.make({"name": "a", "vcpus": {"maximum": 4, "current": 1, "cpuset": "0"}})
    assert "<vcpus>" in host.conn.lookupByName("a").XMLDesc(2)
    for maximum, current in ((4, 3), (2, 2)):
        host.make({"name": "a", "vcpus": {"maximum": maximum, "current": current}})
        state = VCPUS.read(parse_xml(host.conn.lookupByName("a").XMLDesc(2)))
        assert state is not None
        assert (state["maximum"], state["current"]) == (maximum, current)
        assert not host.plan({"name": "a", "vcpus": {"maximum": maximum, "current": current}})[0].steps


def test_a_fallback_belongs_to_a_model(host: Host) -> None:
    for cpu in ({"mode": "host-model", "fallback": "forbid"}, {"fallback": "forbid"}):
        with pytest.raises(
            InputError, match=r"machines\[0\].cpu.fallback: without a model there is nothing to fall back"
        ):
            host.plan({"name": "a", "cpu": cpu})
    host.make({"name": "a", "cpu": {"model": "qemu64"}})
    assert read_known(host, {"cpu": {"fallback": "forbid"}}).hardware["cpu"] == {"fallback": "forbid"}


def test_memory_is_that_of_the_numa_cells(host: Host) -> None:
    cells = [{"memory": "32MiB", "cpus": "0"}, {"memory": "32MiB", "cpus": "1"}]
    spec = {"name": "a", "vcpus": 2, "cpu": {"numa": cells}}
    wrong = r"machines\[0\].memory: 128 MiB is not what the NUMA cells have together, 64 MiB"
    with pytest.raises(InputError, match=wrong):
        host.plan({**spec, "memory": "128MiB"})
    host.make({**spec, "memory": "64MiB"})
    with pytest.raises(InputError, match=wrong.replace("machines\\[0\\].", "")):
        read_known(host, {"vcpus": 2, "memory": "128MiB"})
    assert read_known(host, {"vcpus": 2, "memory": "64MiB"})
    more = [{**cells[0], "memory": "96MiB"}, cells[1]]
    host.make({**spec, "memory": "128MiB", "cpu": {"numa": more}})
    assert "<memory unit='KiB'>131072</memory>" in host.conn.lookupByName("a").XMLDesc(2)


def test_back_to_the_default_cache(host: Host) -> None:
    host.make(one("a", {"size": "1MiB", "cache": "none"}))
    host.make(one("a", {"size": "1MiB", "cache": "default"}))
    assert "cache=" not in host.conn.lookupByName("a").XMLDesc(2)


@pytest.mark.parametrize(
    "address",
    ["http:///x.iso", "http://h", "http://h:99999/x.iso", "http://h:a/x.iso", "http://u:p@h/x.iso", "https://h/x?y=1"],
)
def test_an_address_of_which_a_part_would_be_lost(host: Host, address: str) -> None:
    with pytest.raises(InputError, match="source: the address of the medium is not a host, an optional port and"):
        host.plan(one("a", {"device": "cdrom", "source": address}))
    host.plan(one("a", {"device": "cdrom", "source": "HTTP://h:8080/a/x.iso"}))


def test_a_cdrom_is_always_readonly(host: Host) -> None:
    with pytest.raises(InputError, match=r"machines\[0\].disks\[0\].readonly: a cdrom is always readonly"):
        host.plan(one("a", {"device": "cdrom", "readonly": False}))
    host.plan(one("a", {"device": "cdrom", "readonly": True}))


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("more", [{"serials": []}, {"consoles": []}, {"serials": [], "consoles": []}])
def test_a_machine_loses_its_serial_devices_once(host: Host, more: dict[str, t.Any], start: bool) -> None:
    """libvirt makes a serial device of the console that the first one had, and a console of the first serial device."""
    host.make({"name": "a", "start": start})
    host.make({"name": "a", **more})
    assert not host.plan({"name": "a", **more})[0].steps
    xml = host.conn.lookupByName("a").XMLDesc(2)
    assert ("<serial" in xml) == ("<console" in xml) == ("serials" not in more)


NESTED: dict[str, t.Any] = {}
for _level in range(60):
    NESTED = {"a": NESTED}


@pytest.mark.parametrize("value", [float("inf"), [float("nan")], {"__ansible_type": "x"}, NESTED])
def test_a_variable_that_would_not_be_read_again(host: Host, value: t.Any) -> None:
    with pytest.raises(InputError, match=r"^machines\[0\]\.variables\.b: this variable cannot be stored"):
        host.plan({"name": "a", "variables": {"a": 1, "b": value}})


def test_secrets_in_variables_are_in_no_diff(host: Host) -> None:
    """Of those that the machine has had nothing is in the options of the task, by which secrets are withheld."""
    host.make({"name": "a", "variables": {"db_password": "old", "same_password": "x", "app": {"token": "old", "b": 1}}})
    wanted = {"db_password": "new", "same_password": "x", "app": {"token": "new", "b": 2}, "new_password": "x"}
    todo = host.plan({"name": "a", "variables": wanted})[0]
    hidden, other = "(hidden)", "(hidden, another one)"
    before = {"db_password": hidden, "same_password": hidden, "app": {"token": hidden, "b": 1}}
    after = {"db_password": other, "same_password": hidden, "app": {"token": other, "b": 2}, "new_password": hidden}
    assert (todo.before, todo.after) == ({"variables": before}, {"variables": after})
