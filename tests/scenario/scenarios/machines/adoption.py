# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines made by hand are adopted without a change, exported, and provisioned as exported: nothing changes."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

from ...cloud import Answer, Cloud, must
from ...moving import migrate, result_of, volumes
from ...needs import TINY
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
HERE, THERE = "hv2", "hv1"
RUNS, OFF, OWN, SAVED = "ado1", "ado2", "ado3", "ado4"
IMAGES = "/var/lib/libvirt/images"
PLACE = "/var/tmp/brine-adoption"
URN = "urn:brine:virt:1"
MANY: dict[str, t.Any] = {
    "tags": ["db", "prod"],
    "title": "a title of 'many' <words>",
    "seed": {"method": "none"},
    "disks": [*TINY["disks"], {"name": "data", "size": 16, "cache": "none"}, {"name": "cd", "device": "cdrom"}],
    "graphics": {"type": "vnc", "password": "geheim"},
    "variables": {"role": {"of": ["many", 1]}},
    "features": {"kvm-hidden": True},
}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("machines that virsh and the collection have made", lambda: _prepare(cloud), vital=True)
        scenario.step("one that runs is adopted: nothing but the metadata differs", lambda: _adopt(cloud, RUNS))
        scenario.step("one that is off likewise, with one of its disks", lambda: _adopt(cloud, OFF, "vda"))
        scenario.step("one that is saved, and what is used by others, is refused", lambda: _refused(cloud))
        scenario.step("the playbook: check, run, run again", lambda: _playbook(cloud))
        scenario.step("the whole cloud as one file, twice", lambda: _export(cloud), vital=True)
        scenario.step("provisioning that file changes nothing", lambda: _provision(cloud))
        scenario.step("a changed file is kept", lambda: _changed_file(cloud))
        scenario.step("an adopted machine moves, and is updated", lambda: _move(cloud))
        scenario.step("and is purged with the disk that is its own", lambda: _purge(cloud))
    finally:
        for name in (RUNS, OFF, OWN, SAVED):
            _forget(cloud, name)
        for host in cloud.hosts:
            cloud.on(host, f"rm -rf {PLACE} {IMAGES}/ado*; virsh pool-refresh default")
        _file(cloud).unlink(missing_ok=True)


def _file(cloud: Cloud) -> Path:
    return cloud.build / "scenario-exported.yml"


def _forget(cloud: Cloud, name: str) -> None:
    for host in cloud.hosts:
        cloud.on(
            host,
            f"virsh destroy {name}; virsh undefine {name} --nvram --managed-save --snapshots-metadata;"
            f" rm -f {IMAGES}/{name}-*; virsh pool-refresh default",
        )


def _foreign_xml(name: str, *disks: str) -> str:
    """As somebody writes it who does not know the collection."""
    devices = "".join(
        f"<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{path}'/>"
        f"<target dev='vd{'abc'[number]}' bus='virtio'/></disk>"
        for number, path in enumerate(disks)
    )
    return (
        f"<domain type='qemu'><name>{name}</name><title>by {{{{ hand }}}}</title><memory unit='KiB'>65555</memory>"
        "<vcpu>2</vcpu><os><type machine='q35'>hvm</type><boot dev='hd'/></os><features><acpi/></features>"
        "<clock offset='localtime'><timer name='hpet' present='no'/></clock><pm><suspend-to-mem enabled='no'/></pm>"
        f"<devices>{devices}<disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>"
        "<interface type='bridge'><source bridge='br0'/><model type='e1000e'/></interface><interface type='user'/>"
        "<graphics type='vnc' passwd='geheim'/><sound model='ich9'/><serial type='pty'/></devices></domain>"
    )


def _define(cloud: Cloud, name: str, *disks: str) -> None:
    for disk in disks:
        cloud.on(HERE, f"qemu-img create -q -f qcow2 {disk} 8M")
    cloud.on(HERE, "virsh pool-refresh default")
    cloud.on(
        HERE, f"cat >{PLACE}/{name}.xml <<'END' && virsh define {PLACE}/{name}.xml\n{_foreign_xml(name, *disks)}\nEND\n"
    )


def _prepare(cloud: Cloud) -> None:
    cloud.on(HERE, f"mkdir -p {PLACE}")
    _define(cloud, RUNS, f"{IMAGES}/ado-one.qcow2", f"{PLACE}/outside.qcow2")
    cloud.on(HERE, f"virsh autostart {RUNS} && virsh start {RUNS}")
    _define(cloud, OFF, f"{IMAGES}/ado-two.qcow2", f"{IMAGES}/ado-three.qcow2")
    _define(cloud, SAVED, f"{IMAGES}/ado-four.qcow2")
    cloud.on(HERE, f"virsh start {SAVED} && virsh managedsave {SAVED}")
    answer, _result = cloud.init(THERE, **{**TINY, "name": OWN, "start": False, **MANY})
    must(answer.status == 0, answer.text)


def _adopt_module(cloud: Cloud, name: str, *words: str, **options: t.Any) -> tuple[Answer, dict[str, t.Any]]:
    answer = cloud.ansible(HERE, "brine.virt.virt_adopt", json.dumps({"name": [name], **options}), *words)
    return answer, dict(result_of(answer)["machines"][0])


def _without_ours(text: str) -> str:
    """A description without our metadata, which libvirt writes on lines of their own."""
    lines = re.sub(r"\s*<brine:machine.*?</brine:machine>", "", text, flags=re.DOTALL).splitlines()
    return "\n".join(line for line in lines if line.strip() not in ("<metadata>", "</metadata>", "<metadata/>"))


def _descriptions(cloud: Cloud, name: str) -> list[str]:
    return [cloud.on(HERE, f"virsh dumpxml {word} {name}") for word in ("--inactive", "")]


def _adopt(cloud: Cloud, name: str, *disks: str) -> None:
    options: dict[str, t.Any] = {"disks": list(disks)}
    marks = f"virsh list --all; virsh list --all --name --autostart; sha256sum {IMAGES}/ado-t*"
    before, around = _descriptions(cloud, name), cloud.on(HERE, marks)
    answer, ahead = _adopt_module(cloud, name, "--check", **options)
    must(answer.status == 0 and ahead["changed"] and _descriptions(cloud, name) == before, f"check mode: {answer.text}")
    answer, result = _adopt_module(cloud, name, **options)
    must(answer.status == 0 and result == ahead, f"{answer.text}\nnot as in check mode: {ahead}")
    must([disk["own"] for disk in result["disks"]] == [bool(disks), False], str(result["disks"]))
    after = _descriptions(cloud, name)
    must(all(URN in text for text in after), f"no metadata in {after}")
    must([*map(_without_ours, after)] == [*map(_without_ours, before)], f"more than the metadata differs: {after}")
    must(cloud.on(HERE, marks) == around, "something else has changed")
    answer, again = _adopt_module(cloud, name, **options)
    must(answer.status == 0 and not again["changed"] and _descriptions(cloud, name) == after, f"again: {answer.text}")


def _refused(cloud: Cloud) -> None:
    before = cloud.state(HERE)
    for name, options, words in (
        (SAVED, {}, f"the state of {SAVED} is saved, and it would resume without the metadata"),
        (RUNS, {"disks": ["vdb"]}, f"disk vdb of {RUNS} cannot become its own: it is in no active storage pool"),
        (RUNS, {"disks": ["vdq"]}, f"'vdq' is not a disk of machine {RUNS}"),
        ("ado9", {}, "there is no machine 'ado9' on this hypervisor"),
    ):
        for more in (["--check"], []):
            answer, result = _adopt_module(cloud, name, *more, **options)
            must(answer.status != 0 and not result["changed"] and words in result["msg"], answer.text)
    must(cloud.state(HERE) == before, "something has changed")
    cloud.on(HERE, f"virsh managedsave-remove {SAVED}")


def _playbook(cloud: Cloud) -> None:
    before = cloud.state_of_all()
    answer = cloud.play_well("adopt", "-e", f"vm={SAVED},{OWN}", "--check", live=False)
    must(cloud.state_of_all() == before, f"check mode has changed something: {answer.text}")
    for line in (
        f"{SAVED} on {HERE} (shutoff) is adopted:",
        "  disk vda, default/ado-four.qcow2: not its own, as disks does not name it. Nothing else uses it, so it can "
        "be named",
        f"{OWN} on {THERE} (shutoff) belongs to this collection already:",
    ):
        must(line in answer.text.splitlines(), f"{line!r} is not in:\n{answer.text}")
    answer = cloud.play_well("adopt", "-e", f"vm={SAVED}", live=False)
    must(answer.recap("changed") == 1, answer.text)
    answer = cloud.play_well("adopt", "-e", f"vm={SAVED},{OWN}", live=False)
    must(answer.recap("changed") == 0, answer.text)


def _export(cloud: Cloud) -> None:
    before = cloud.state_of_all()
    words = ("-e", f"vm={RUNS},{OFF},{OWN},{SAVED}", "-e", f"file={_file(cloud)}")
    answer = cloud.play_well("export", *words, live=False)
    must(answer.recap("changed") == 1 and "4 machines in " in answer.text, answer.text)
    text = _file(cloud).read_text(encoding="utf-8")
    must(_file(cloud).stat().st_mode & 0o777 == 0o600, "others can read the file")
    for line in (
        f"    hypervisor: {HERE}",
        f"    hypervisor: {THERE}",
        "    # Not exported: graphics.password: a secret",
        "    # Not exported: nics.eth1: a nic of type user",
        "    # Not exported: devices/sound model=ich9",
        '    title: !unsafe "by {{ hand }}"',
    ):
        must(line in text.splitlines(), f"{line!r} is not in:\n{text}")
    must("geheim" not in text + answer.text, f"a password is in:\n{text}")
    answer = cloud.play_well("export", *words, live=False)
    must(answer.recap("changed") == 0, f"a second export: {answer.text}")
    must(cloud.state_of_all() == before, "the export has changed something")


def _provision(cloud: Cloud) -> None:
    before = cloud.state_of_all()
    words = ("-e", f"@{_file(cloud)}", "-e", "virt_provision_wait=false")
    for more in (["--check"], []):
        # With the live inventory: otherwise the file of host keys would get the machines.
        answer = cloud.play_well("provision", *words, *more)
        must(answer.recap("changed") == 0, answer.text)
        for word in ("pending until", "stays as it was created"):
            must(word not in answer.one_line, f"{word!r} is in:\n{answer.text}")
    must(cloud.state_of_all() == before, "something has changed")


def _changed_file(cloud: Cloud) -> None:
    _file(cloud).write_text(_file(cloud).read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    words = ("-e", f"vm={OFF}", "-e", f"file={_file(cloud)}")
    answer = cloud.play("export", *words, live=False)
    must(answer.status != 0 and "or has been changed since, so it is kept" in answer.one_line, answer.text)
    must(_file(cloud).read_text(encoding="utf-8").endswith("# mine\n"), "it was not kept")
    cloud.play_well("export", *words, "-e", "force=true", live=False)
    must("# mine" not in _file(cloud).read_text(encoding="utf-8"), "it was kept")


def _move(cloud: Cloud) -> None:
    answer, result = cloud.init(
        HERE, name=OFF, vcpus=2, memory=128, tags=["moved"], start=False, seed={"method": "none"}
    )
    must(answer.status == 0 and result["changed"], answer.text)
    answer, _result = migrate(cloud, HERE, name=OFF, target=THERE)
    must(answer.status == 0, answer.text)
    must(OFF in cloud.on(THERE, "virsh list --all --name").split(), f"{OFF} is not on {THERE}")
    must("<brine:tag>moved</brine:tag>" in cloud.on(THERE, f"virsh dumpxml {OFF}"), "its tag is gone")
    kept = cloud.on(HERE, f"ls {IMAGES}").split()
    must("ado-two.qcow2" not in kept, "its own disk is still at the source")
    must("ado-three.qcow2" in kept, "a disk that is not its own has gone from the source")


def _purge(cloud: Cloud) -> None:
    cloud.play_well("purge", "-e", f"vm={OFF}", live=False)
    kept = cloud.on(THERE, f"ls {IMAGES}").split()
    must("ado-two.qcow2" not in kept, "its own disk is still there")
    cloud.play_well("purge", "-e", f"vm={RUNS}", "-e", "force=true", live=False)
    must("ado-one.qcow2" in cloud.on(HERE, f"ls {IMAGES}").split(), "a disk that is not its own has gone")
    must(volumes(cloud, HERE, RUNS) == set(), "there are volumes of its name")
