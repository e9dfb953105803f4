# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_init by itself, on the image that boots in seconds: check, run, check, run, and failures in between."""

from __future__ import annotations

import json

from ...cloud import Cloud, must
from ...needs import TINY
from ...runner import ScenarioRun
from .provisioning import validate_all

NEEDS = ("hypervisors",)


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step("virt_image: check, run, check, run on both hosts", lambda: _images(cloud), vital=True)
    scenario.step("a machine: check, run, check, run", lambda: _quartet(cloud))
    scenario.step("a data disk, a full copy, UEFI: as virsh and qemu-img see them", lambda: _disks(cloud))
    scenario.step("many machines: one fails and is rolled back, the others are kept", lambda: _one_fails(cloud))
    scenario.step("tags and autostart change at once, memory waits for the next boot", lambda: _changes(cloud))
    scenario.step("what cannot be changed is refused, and stays", lambda: _refused(cloud))
    scenario.step("a volume of somebody else is never touched", lambda: _foreign_volume(cloud))
    scenario.step("a machine of somebody else is never touched", lambda: _foreign_machine(cloud))
    scenario.step("virt-xml-validate accepts every machine", lambda: validate_all(cloud))


def _images(cloud: Cloud) -> None:
    arguments = json.dumps({"name": "tiny", "src": cloud.images["tiny"]})
    answer = cloud.ansible("hypervisors", "brine.virt.virt_image", json.dumps({"name": "tiny", "state": "absent"}))
    must(answer.status == 0, answer.text)
    for words, changed in ((["--check"], True), ([], True), (["--check"], False), ([], False)):
        answer = cloud.ansible("hypervisors", "brine.virt.virt_image", arguments, *words)
        must(answer.status == 0, answer.text)
        must(answer.text.count(f'"changed": {str(changed).lower()}') == len(cloud.hosts), answer.text)
    for host in cloud.hosts:
        name, digest = cloud.on(
            host, "cd $(virsh pool-dumpxml images | sed -n 's:.*<path>\\(.*\\)</path>.*:\\1:p'); sha256sum tiny-*"
        ).split()[::-1]
        must(name == f"tiny-{digest[:16]}.qcow2", f"{name} has the sha256 {digest}")


def _quartet(cloud: Cloud) -> None:
    for check, changed in ((True, True), (False, True), (True, False), (False, False)):
        answer, result = cloud.init("hv1", name="tiny1", check=check, **TINY)
        must(answer.status == 0 and result["changed"] is changed, f"check {check}: {answer.text}")
        there = "tiny1" in cloud.on("hv1", "virsh list --name --state-running").split()
        must(there is not (check and changed), f"check {check}: running is {there}")


def _disks(cloud: Cloud) -> None:
    disks = [{"name": "system", "size": "1GiB", "clone": "copy"}, {"name": "data", "size": 100, "format": "raw"}]
    spec = {**TINY, "name": "tiny2", "disks": disks, "firmware": "efi", "start": False}
    answer, _result = cloud.init("hv1", **spec)
    must(answer.status == 0, answer.text)
    info = json.loads(cloud.on("hv1", "qemu-img info --output json /var/lib/libvirt/images/tiny2-system.qcow2"))
    must(info["virtual-size"] == 1 << 30 and "backing-filename" not in info, str(info))
    info = json.loads(cloud.on("hv1", "qemu-img info --output json /var/lib/libvirt/images/tiny2-data.raw"))
    must(info["format"] == "raw" and info["virtual-size"] == 100 << 20, str(info))
    info = json.loads(cloud.on("hv1", "qemu-img info -U --output json /var/lib/libvirt/images/tiny1-system.qcow2"))
    must(info["backing-filename-format"] == "qcow2" and info["virtual-size"] == 256 << 20, str(info))
    must("firmware='efi'" in cloud.on("hv1", "virsh dumpxml tiny2"), "no UEFI")


def _one_fails(cloud: Cloud) -> None:
    """QEMU cannot listen on an address that the host does not have: a failure that comes with the very last step."""
    bad = {**TINY, "name": "tiny4", "graphics": {"type": "vnc", "listen": "203.0.113.1"}}
    there = set(cloud.on("hv2", "virsh list --all --name").split())
    machines = [{**TINY, "name": "tiny3"}, bad, {**TINY, "name": "tiny5", "start": False}]
    answer, result = cloud.init("hv2", machines=machines)
    must(answer.status != 0, answer.text)
    must("tiny4" in result["msg"] and "tiny3, tiny5" in result["msg"], result["msg"])
    must([m["failed"] for m in result["machines"]] == [False, True, False], answer.text)
    more = set(cloud.on("hv2", "virsh list --all --name").split()) - there
    must(more == {"tiny3", "tiny5"}, f"new on hv2: {more}")
    must("tiny4" not in cloud.state("hv2"), "something of tiny4 is left")


def _changes(cloud: Cloud) -> None:
    spec = {**TINY, "name": "tiny1", "memory": 160, "autostart": True, "tags": ["a", "b"], "title": "New title"}
    for check, changed in ((True, True), (False, True), (True, False), (False, False)):
        answer, result = cloud.init("hv1", check=check, **spec)
        must(answer.status == 0 and result["changed"] is changed, f"check {check}: {answer.text}")
        machine = result["machines"][0]
        # It is said until the machine has been restarted.
        must(machine["restart_required"] and machine["pending"] == ["memory"], f"check {check}: {answer.text}")
    must("tiny1" in cloud.on("hv1", "virsh list --all --name --autostart").split(), "no autostart")
    must("163840" in cloud.on("hv1", "virsh dumpxml --inactive tiny1 | grep '<memory'"), "no more memory")
    must("131072" in cloud.on("hv1", "virsh dumpxml tiny1 | grep '<memory'"), "a living machine has changed its memory")
    must("New title" in cloud.on("hv1", "virsh desc tiny1 --title"), "no title")
    # What nobody names stays as it is.
    answer, result = cloud.init("hv1", name="tiny1", **{**TINY, "memory": 160})
    must(result["changed"] is False, answer.text)
    must("tiny1" in cloud.on("hv1", "virsh list --all --name --autostart").split(), "autostart is gone")
    # And the difference is shown as YAML.
    answer = cloud.ansible(
        "hv1", "brine.virt.virt_init", json.dumps({**TINY, "name": "tiny1", "memory": 192}), "--check", "--diff"
    )
    must("+  maximum: 192" in answer.text and "-  maximum: 160" in answer.text, answer.text)


def _refused(cloud: Cloud) -> None:
    before = cloud.state("hv1")
    for change, words in (
        ({"disks": [{"name": "system", "size": 128}]}, "never shrunk"),
        ({"disks": [{"name": "system", "size": 256}, {"name": "more", "size": "1MiB", "pool": "fast"}]}, "'fast'"),
        ({"disks": [{"name": "system", "size": 256, "model": "sata"}]}, "disks[0].model"),
        ({"nics": [{"name": "eth0", "mac": "52:54:00:00:00:01"}]}, "52:54:00:00:00:01"),
        ({"nics": [{"name": "eth0", "bridge": "br7"}]}, "br7"),
        ({"firmware": "efi"}, "has firmware bios"),
        ({"machine_type": "pc"}, "machine_type"),
        ({"xml": "<devices><sound model='loud'/></devices>"}, "schema"),
        ({"xml": "<devices><sound"}, "not well-formed"),
        ({"graphics": {"type": "vnc", "tls": True}}, "graphics.tls"),
        ({"tpm": {"version": "2.0", "model": "tpm-big"}}, "tpm.model"),
        ({"cpu": {"model": "Pentium9"}}, "no CPU model"),
        ({"cpu": {"topology": {"cores": 3}}}, "makes 3 vCPUs"),
    ):
        answer, result = cloud.init("hv1", **{**TINY, "memory": 160, "name": "tiny1", **change})
        must(answer.status != 0 and words in result["msg"], f"{words}: {answer.text}")
    must(cloud.state("hv1") == before, "something has changed")


def _foreign_volume(cloud: Cloud) -> None:
    cloud.on("hv1", "virsh vol-create-as default tiny6-system.qcow2 1M --format qcow2 >/dev/null")
    before = cloud.state("hv1")
    answer, result = cloud.init("hv1", name="tiny6", **TINY)
    must(answer.status != 0 and "tiny6-system.qcow2" in result["msg"], answer.text)
    must(cloud.state("hv1") == before, "something has changed")
    cloud.on("hv1", "virsh vol-delete tiny6-system.qcow2 default")


def _foreign_machine(cloud: Cloud) -> None:
    xml = "<domain type='qemu'><name>foreign</name><memory>65536</memory><os><type>hvm</type></os></domain>"
    cloud.on("hv1", f'echo "{xml}" >/tmp/foreign.xml; virsh define /tmp/foreign.xml')
    before = cloud.state("hv1")
    answer, result = cloud.init("hv1", name="foreign", **TINY)
    must(answer.status != 0 and "foreign" in result["msg"], answer.text)
    must(cloud.state("hv1") == before, "something has changed")
    cloud.on("hv1", "virsh undefine foreign")
