# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that others made, asked for as they are: virt_init accepts it and has nothing to do."""

from __future__ import annotations

import functools
import json
import typing as t

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    DiskNote,
    MachineNotes,
    NicNote,
    notes_to_element,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing, read_values
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.table import covers
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import (
    make_plans,
    read_specs_here,
    run_plans,
)
from ansible_collections.brine.virt.plugins.modules import virt_init
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.foreign_machines import (
    recorded,
    recorded_for_test_driver,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.schema_machines import SchemaMachines

pytestmark = pytest.mark.medium

ALL = recorded()
NAMES = [f"m{number}" for number in range(len(ALL))]
# What no XML says: that nothing else is asked for.
BESIDE = {"disk_profile": None, "nic_profile": None, "seed": {"method": "none"}, "start": False}
# What libvirt's own test has that no new machine can have: a nic of another model, a disk on another bus, and others.
ODD = """<domain type='test'><name>odd</name><memory unit='MiB'>512</memory><vcpu>2</vcpu>
<os><type arch='x86_64'>hvm</type></os><devices>
<disk type='file' device='disk'><driver name='qemu' type='vmdk'/><source file='/elsewhere/odd.vmdk'/>
<target dev='hda' bus='ide'/></disk>
<disk type='file' device='cdrom'><target dev='hdc' bus='ide'/><readonly/></disk>
<interface type='network'><mac address='00:16:3e:00:00:07'/><source network='default'/><model type='pcnet'/></interface>
<interface type='user'><mac address='00:16:3e:00:00:08'/><model type='ne2k_pci'/></interface>
<video><model type='vmvga' vram='9216'/></video></devices></domain>"""


def with_notes(domain: etree._Element) -> str:
    """The machine with names of ours for its disks and nics, as after it has been adopted."""
    targets = [target.get("dev", "") for target in domain.iterfind("devices/disk/target")]
    macs = [mac.get("address", "") for mac in domain.iterfind("devices/interface/mac")]
    disks = [DiskNote(f"disk-{target}", target) for target in targets]
    nics = [NicNote(f"nic{number}", mac) for number, mac in enumerate(macs)]
    metadata = domain.find("metadata")
    metadata = etree.SubElement(domain, "metadata") if metadata is None else metadata
    metadata.append(notes_to_element(MachineNotes(disks=tuple(disks), nics=tuple(nics))))
    return etree.tostring(domain, encoding="unicode")


@pytest.fixture(scope="module")
def foreign() -> t.Iterator[Hypervisor]:
    """A hypervisor of libvirt's test driver with all machines that virt-install made."""
    with open_connection("test:///default") as conn:
        for text in recorded_for_test_driver():
            # Through libvirt once, so that every nic has an address.
            handle = conn.defineXML(text)
            conn.defineXML(with_notes(etree.fromstring(handle.XMLDesc())))
        yield Hypervisor(conn, image_pool="default-pool")


def request_of(hypervisor: Hypervisor, name: str) -> dict[str, t.Any]:
    """A machine's description as a task would ask for it, as JSON has it."""
    domain = hypervisor.domains[name]
    request: dict[str, t.Any] = json.loads(json.dumps(read_values(domain.xml, domain.notes)))
    return {**request, **BESIDE}


def params_of(*requests: dict[str, t.Any]) -> dict[str, t.Any]:
    """The options of a task for these machines."""
    found = ArgumentSpecValidator(virt_init.ARGUMENTS).validate({"machines": list(requests)}).validated_parameters
    return dict(found)


def plans(hypervisor: Hypervisor, *requests: dict[str, t.Any]) -> list[MachinePlan]:
    """What virt_init would do."""
    params = params_of(*requests)
    virt_init.check_ahead(params)
    return make_plans(
        read_specs_here(functools.partial(virt_init.read_specs, params), hypervisor), hypervisor, "machines"
    )


def must_change_nothing(plan: MachinePlan) -> None:
    found = (plan.created, plan.before, plan.after, list(plan.steps), plan.pending, plan.outdated, plan.error)
    assert found == (False, {}, {}, [], [], [], None)


@pytest.mark.parametrize("name", [pytest.param(NAMES[n], id=arguments[80:]) for n, arguments in enumerate(ALL)])
def test_what_a_machine_has_is_accepted_and_changes_nothing(foreign: Hypervisor, name: str) -> None:
    request = request_of(foreign, name)
    (plan,) = plans(foreign, request)
    must_change_nothing(plan)
    # What is not named stays as well.
    short = {key: request[key] for key in ("name", "vcpus", "memory", *BESIDE)}
    bare: dict[str, t.Any] = {kind: {device: {} for device in request[kind]} for kind in ("disks", "nics")}
    (plan,) = plans(foreign, {**short, **bare})
    must_change_nothing(plan)


@pytest.mark.parametrize("seed", range(30))
def test_what_the_schema_of_libvirt_allows_is_accepted_of_the_machine_that_has_it(seed: int) -> None:
    domain = SchemaMachines().machine(seed)
    # By chance these are what libvirt refuses as well.
    for path, text in (("name", "m"), ("vcpu", "2"), ("memory", "1048576"), ("currentMemory", "1048576")):
        for element in domain.findall(path):
            element.text = text
            element.attrib.clear()
    for system in domain.findall("os/type"):
        system.set("machine", "q35")
    # Our nics are known by their addresses.
    for number, mac in enumerate(domain.iterfind("devices/interface/mac")):
        mac.set("address", f"52:54:00:00:00:{number:02x}")
    values = {"vcpus": {"maximum": 1, "current": 1}, **read_values(domain)}
    request = {**json.loads(json.dumps(values)), **BESIDE}
    machine = read_machine(request, existing=lambda _name: Existing(values))
    assert covers(values, machine.hardware)
    # Nor is it refused where only its hypervisor knows what it has.
    unseen = read_machine(request, existing=lambda _name: Existing())
    assert (unseen.vcpus, unseen.memory_mib) == (machine.vcpus, machine.memory_mib)


@pytest.mark.parametrize("values", [None, {"name": "my machine", "vcpus": {"maximum": 1}, "memory": {"maximum": 1}}])
def test_a_name_is_one_that_the_inventory_can_have_whoever_gave_it(values: dict[str, t.Any] | None) -> None:
    with pytest.raises(InputError, match="^name: 'my machine' is not a name"):
        read_machine({"name": "my machine", "vcpus": 1, "memory": "1MiB"}, existing=lambda _name: Existing(values))


@pytest.fixture
def odd(node_uri: str) -> t.Iterator[t.Any]:
    """A hypervisor that has a machine of others with what is offered for no new one."""
    with open_connection(node_uri) as conn:
        conn.defineXML(with_notes(etree.fromstring(ODD)))
        yield conn


def looked_at(conn: t.Any) -> Hypervisor:
    return Hypervisor(conn, image_pool="images")


REFUSED: list[tuple[str, set[str]]] = [
    ("video", {".video.model: 'vmvga' is not a choice"}),
    (
        "disks",
        {
            ".disks.disk-hda.model: disks on an IDE bus are not supported, as machines of type q35 have none",
            ".disks.disk-hda.format: 'vmdk' is not a choice",
            ".disks.disk-hdc.model: disks on an IDE bus are not supported, as machines of type q35 have none",
        },
    ),
    (
        "nics",
        {
            ".nics.nic0.model: 'pcnet' is not a choice",
            ".nics.nic1.type: 'user' is not a choice",
            ".nics.nic1.model: 'ne2k_pci' is not a choice",
        },
    ),
]


@pytest.mark.parametrize(("option", "sentences"), REFUSED)
def test_a_new_machine_is_refused_what_another_one_has(odd: t.Any, option: str, sentences: set[str]) -> None:
    request = request_of(looked_at(odd), "odd")
    must_change_nothing(plans(looked_at(odd), request)[0])
    part = {key: request[key] for key in ("name", "vcpus", "memory", *BESIDE, option)}
    with pytest.raises(InputError) as caught:
        plans(looked_at(odd), part, {**part, "name": "new"})
    assert {line.partition(". ")[0] for line in str(caught.value).splitlines()} == {
        f"machines[1]{words}" for words in sentences
    }


def test_nothing_waits_in_a_machine_that_runs(odd: t.Any) -> None:
    odd.lookupByName("odd").create()
    must_change_nothing(plans(looked_at(odd), request_of(looked_at(odd), "odd"))[0])


def test_what_a_machine_has_is_no_question_to_its_hypervisor(odd: t.Any) -> None:
    hypervisor = looked_at(odd)
    request = request_of(hypervisor, "odd")
    # The test driver has no such answer: a hypervisor that has lost its video devices.
    less = etree.fromstring("<domainCapabilities><devices><video supported='no'/></devices></domainCapabilities>")
    hypervisor.guests._known_capabilities[hypervisor.domains["odd"].xml.find("os/type").get("machine")] = less
    hypervisor.guests._known_capabilities[""] = less
    must_change_nothing(plans(hypervisor, request)[0])
    assert plans(hypervisor, {**request, "rng": True})[0].pending == []
    with pytest.raises(UnsupportedError, match=r"machines\[0\]\.video: this hypervisor has no video"):
        plans(hypervisor, {**request, "video": "vga"})


def test_an_existing_machine_is_refused_what_neither_it_has_nor_a_new_one_can_have(odd: t.Any) -> None:
    request = request_of(looked_at(odd), "odd")
    request["nics"] = {"nic0": {"model": "ne2k_pci"}, "other": {"model": "pcnet"}}
    with pytest.raises(InputError) as caught:
        plans(looked_at(odd), request)
    assert [line.partition(". ")[0] for line in str(caught.value).splitlines()] == [
        "machines[0].nics.nic0.model: 'ne2k_pci' is not a choice",
        "machines[0].nics.other.model: 'pcnet' is not a choice",
    ]


def test_what_is_asked_for_beside_what_it_has_changes_alone(odd: t.Any) -> None:
    request = request_of(looked_at(odd), "odd")
    request["nics"]["nic0"]["mtu"] = 9000
    request["nics"]["nic1"] = {"type": "network", "source": "default", "model": "e1000"}
    request["disks"]["disk-hda"]["cache"] = "none"
    (plan,) = plans(looked_at(odd), request)
    assert plan.after == {
        "nics": {"nic0": {"mtu": 9000}, "nic1": {"type": "network", "source": "default", "model": "e1000"}},
        "disks": {"disk-hda": {"cache": "none"}},
    }
    (outcome,) = run_plans([plan], concurrency=1)
    assert outcome.error is None
    xml = looked_at(odd).domains["odd"].xml
    assert xml.xpath("devices/interface/model/@type") == ["pcnet", "e1000"]
    assert xml.xpath("devices/interface/@type") == ["network", "network"]
    assert xml.xpath("devices/disk/target/@bus") == ["ide", "ide"]
    assert xml.xpath("devices/disk/driver/@cache") == ["none"]
    must_change_nothing(plans(looked_at(odd), request)[0])


def test_what_is_not_said_of_an_existing_machine_stays(odd: t.Any) -> None:
    (plan,) = plans(looked_at(odd), {"name": "odd", "start": False})
    must_change_nothing(plan)
    (plan,) = plans(looked_at(odd), {"name": "odd", "title": "Odd", "start": False})
    assert plan.after == {"title": "Odd"}
    topology = {"cpu": {"topology": {"cores": 3}}, "start": False}
    with pytest.raises(InputError, match=r"the topology makes 3 vCPUs, the machine has up to 2\. "):
        plans(looked_at(odd), {"name": "odd", **topology})
    shared = {"shared_folders": [{"source": "/srv", "tag": "srv"}], "start": False}
    (plan,) = plans(looked_at(odd), {"name": "odd", **shared})
    assert plan.after["memory"] == {"source": "memfd", "access": "shared"}
    with pytest.raises(InputError, match=r"^machines\[0\]: vcpus is missing\. A new machine needs name, vcpus"):
        plans(looked_at(odd), {"name": "even", "state": "stopped"})


def test_what_is_wrong_of_any_machine_is_said_before_the_hypervisor_is_asked() -> None:
    machine = {"name": "odd", "vcpus": 2, "memory": 512, "video": "vmvga", "nics": {"nic0": {"model": "pcnet"}}}
    virt_init.check_ahead(
        params_of(machine, {**machine, "disks": {"a": {"pool": "/srv", "size": "1MiB"}}, "name": "b"})
    )
    with pytest.raises(InputError, match=r"^machines\[0\]: unknown option 'vido'"):
        virt_init.check_ahead(params_of({**machine, "vido": "vga"}))
    with pytest.raises(InputError, match=r"^machines\[0\]\.seed: "):
        virt_init.check_ahead(params_of({**machine, "seed": {"usr": "me"}}))
    virt_init.check_ahead(params_of({**machine, "seed": {"pool": "/srv"}}))


def test_a_nic_that_leaves_what_is_not_offered_gets_the_model_of_a_new_one(odd: t.Any) -> None:
    request = request_of(looked_at(odd), "odd")
    request["nics"] = {"nic1": {"network": "default"}}
    assert plans(looked_at(odd), request)[0].after["nics"]["nic1"]["model"] == "virtio"
