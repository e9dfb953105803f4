# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines are removed with what they own; all else survives byte for byte. In check mode first, twice, and killed."""

from __future__ import annotations

import functools
import json
import re
import typing as t

from ...cloud import Answer, Cloud, must
from ...driving.tasks import module
from ...kill_runs import KillDriver
from ...moving import result_of, volumes
from ...needs import TINY
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
HERE, THERE = "hv2", "hv1"
TRAPS, OTHER, UEFI, SAVED, FOREIGN, KILLED = "pur1", "pur2", "pur3", "pur4", "pur5", "kill1"
IMAGES = "/var/lib/libvirt/images"
PLACE = "/var/tmp/brine-purge"
DRIVER = KillDriver(HERE, PLACE)
NO_SEED: dict[str, t.Any] = {"seed": {"method": "none"}}
DISKS = [*TINY["disks"], *({"name": name, "size": 16} for name in ("data", "linked", "swap"))]
KILL_STEPS = 3


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("machines, and everything that a purge must not touch", lambda: _prepare(cloud), vital=True)
        scenario.step("a pool that is not active: nothing of it would go", lambda: _unknown(cloud))
        scenario.step("a machine goes with what it owns; all else survives", lambda: _traps(cloud))
        scenario.step("a running machine is refused, and goes with force, NVRAM and TPM state", lambda: _uefi(cloud))
        scenario.step("a saved state and a snapshot go with the machine", lambda: _saved(cloud))
        scenario.step("a checkpoint goes with the machine, and its backup stays", lambda: _checkpoint(cloud))
        scenario.step("keep_disks keeps them", lambda: _keep_disks(cloud))
        scenario.step("a machine of somebody else is adopted, with one of its disks", lambda: _foreign(cloud))
        scenario.step("one that is being moved is refused", lambda: _moving(cloud))
        for step in range(KILL_STEPS):
            for moment in ("before", "during"):
                scenario.step(
                    f"killed {moment} step {step + 1} of {KILL_STEPS}, run again",
                    functools.partial(_killed, cloud, step, moment),
                )
        scenario.step("the playbook: check, run, run again; the host keys go", lambda: _playbook(cloud))
        scenario.step("the playbook: a name on two hypervisors", lambda: _two_homes(cloud))
        scenario.step("the playbook: bad input is a sentence", lambda: _mistakes(cloud))
    finally:
        for name in (TRAPS, OTHER, UEFI, SAVED, FOREIGN, KILLED):
            _forget(cloud, name)
        cloud.on(HERE, f"rm -rf {PLACE} {IMAGES}/pur-*; virsh pool-destroy asleep; virsh pool-undefine asleep; true")
        cloud.on(HERE, "virsh pool-refresh default")


def _forget(cloud: Cloud, name: str) -> None:
    for host in cloud.hosts:
        cloud.on(
            host,
            f"virsh destroy {name}; virsh undefine {name} --nvram --managed-save --snapshots-metadata;"
            f" rm -f {IMAGES}/{name}-*; virsh pool-refresh default",
        )


def _make(cloud: Cloud, name: str, host: str = HERE, **options: t.Any) -> None:
    answer, _result = cloud.init(host, **{**TINY, "name": name, "start": False, **options})
    must(answer.status == 0, answer.text)


def _purge(cloud: Cloud, name: str, *words: str, **options: t.Any) -> tuple[Answer, dict[str, t.Any]]:
    """The module on one machine: what was said, and what became of the machine."""
    answer = cloud.ansible(HERE, "brine.virt.virt_purge", json.dumps({"name": [name], **options}), *words)
    return answer, dict(result_of(answer)["machines"][0])


def _purge_well(cloud: Cloud, name: str, **options: t.Any) -> dict[str, str]:
    """In check mode, which changes nothing and says the same; for real; and once more, which is no change.

    Gives the decision about each volume, by its name.
    """
    before = cloud.state(HERE)
    answer, ahead = _purge(cloud, name, "--check", **options)
    must(answer.status == 0 and ahead["changed"] and cloud.state(HERE) == before, f"check mode: {answer.text}")
    answer, result = _purge(cloud, name, **options)
    must(answer.status == 0 and result == ahead, f"{answer.text}\nnot as in check mode: {ahead}")
    must(name not in cloud.on(HERE, "virsh list --all --name").split(), f"{name} is still there")
    answer, again = _purge(cloud, name, **{**options, "disks": []})
    must(answer.status == 0 and not again["changed"] and not again["present"], f"a second run: {answer.text}")
    return {volume["volume"]: f"{volume['action']}: {volume['reason']}" for volume in result["volumes"]}


def _refused(cloud: Cloud, name: str, words: str, **options: t.Any) -> None:
    before = cloud.state(HERE)
    for more in (["--check"], []):
        answer, result = _purge(cloud, name, *more, **options)
        must(answer.status != 0 and not result["changed"] and words in result["msg"], answer.text)
    must(cloud.state(HERE) == before, "something has changed")


def _sums(cloud: Cloud, *files: str) -> str:
    return cloud.on(HERE, f"sha256sum {' '.join(files)}")


def _stored(cloud: Cloud) -> str:
    return cloud.on(HERE, "virsh vol-list images | awk '/tiny-/ {print $2}'").strip()


def _prepare(cloud: Cloud) -> None:
    cloud.on(HERE, f"mkdir -p {PLACE}")
    _make(cloud, TRAPS, disks=DISKS)
    _make(cloud, OTHER, start=True, **NO_SEED)
    # Somebody's own image under the name of one of the disks, an ISO, and a disk in no pool.
    cloud.on(
        HERE,
        f"rm {IMAGES}/{TRAPS}-swap.qcow2 && qemu-img create -q -f qcow2 {IMAGES}/{TRAPS}-swap.qcow2 16M"
        f" && head -c 100000 /dev/urandom >>{IMAGES}/{TRAPS}-swap.qcow2"
        f" && head -c 1M /dev/urandom >{IMAGES}/pur-tools.iso && virsh pool-refresh default"
        f" && qemu-img create -q -f qcow2 {PLACE}/outside.qcow2 16M",
    )
    for disk in (
        f"{IMAGES}/pur-tools.iso sdx --type cdrom --mode readonly --subdriver raw --targetbus sata",
        f"{PLACE}/outside.qcow2 vdx --subdriver qcow2",
    ):
        cloud.on(HERE, f"virsh attach-disk {TRAPS} {disk} --config")
    # The other machine has one disk only as long as it runs, and at its next start a clone that is linked to another.
    cloud.on(
        HERE,
        f"virsh attach-disk {OTHER} {IMAGES}/{TRAPS}-data.qcow2 vdc --subdriver qcow2 --live"
        f" && ! virsh dumpxml --inactive {OTHER} | grep {TRAPS}-data",
    )
    cloud.on(
        HERE,
        f"qemu-img create -q -f qcow2 -b {IMAGES}/{TRAPS}-linked.qcow2 -F qcow2 {PLACE}/clone.qcow2"
        f" && virsh attach-disk {OTHER} {PLACE}/clone.qcow2 vdd --subdriver qcow2 --config",
    )


def _unknown(cloud: Cloud) -> None:
    cloud.on(HERE, f"mkdir -p {PLACE}/asleep && virsh pool-define-as asleep dir --target {PLACE}/asleep")
    answer, result = _purge(cloud, TRAPS, "--check")
    own = [volume for volume in result["volumes"] if volume["volume"].startswith(f"{TRAPS}-")]
    must(len(own) == len(DISKS) + 1 and {volume["action"] for volume in own} == {"keep"}, answer.text)
    cloud.on(HERE, "virsh pool-undefine asleep")
    must("storage pool asleep is not active" in str(own), answer.text)


def _traps(cloud: Cloud) -> None:
    kept = [
        *(f"{IMAGES}/{TRAPS}-{disk}.qcow2" for disk in ("data", "linked", "swap")),
        *(f"{IMAGES}/pur-tools.iso", f"{PLACE}/outside.qcow2", f"{PLACE}/clone.qcow2", _stored(cloud)),
    ]
    before = _sums(cloud, *kept)
    found = _purge_well(cloud, TRAPS)
    for volume, words in (
        (f"{TRAPS}-system.qcow2", "delete: it belongs to this machine"),
        (f"{TRAPS}-seed.iso", "delete: it belongs to this machine"),
        (f"{TRAPS}-data.qcow2", f"keep: it is used by machine {OTHER}"),
        (f"{TRAPS}-linked.qcow2", f"keep: it is used by machine {OTHER}"),
        (f"{TRAPS}-swap.qcow2", "keep: nothing proves that it is the volume that was created for this machine"),
        ("pur-tools.iso", "keep: it was not created for this machine"),
        (f"{PLACE}/outside.qcow2", "keep: it is in no active storage pool"),
        (_stored(cloud).rpartition("/")[2], "keep: it is a stored image"),
    ):
        must(found.get(volume, "").startswith(words), f"{volume}: not {words!r} in {found}")
    must(_sums(cloud, *kept) == before, "what was kept has changed")
    left = volumes(cloud, HERE, TRAPS)
    must(left == {f"{TRAPS}-{disk}.qcow2" for disk in ("data", "linked", "swap")}, f"left: {left}")
    must(OTHER in cloud.on(HERE, "virsh list --name").split(), "the other machine does not run")


def _uefi(cloud: Cloud) -> None:
    _make(cloud, UEFI, start=True, firmware="efi", tpm=True)
    xml = cloud.on(HERE, f"virsh dumpxml {UEFI}")
    nvram, uuid = (re.search(f"<{tag}[^>]*>([^<]+)</{tag}>", xml) for tag in ("nvram", "uuid"))
    must(nvram is not None and uuid is not None, xml)
    files = [nvram.group(1) if nvram else "", f"/var/lib/libvirt/swtpm/{uuid.group(1) if uuid else ''}"]
    cloud.on(HERE, f"ls -d {' '.join(files)}")
    _refused(cloud, UEFI, f"{UEFI} is running, so it is not removed")
    cloud.on(HERE, f"virsh suspend {UEFI}")
    _refused(cloud, UEFI, f"{UEFI} is paused, so it is not removed")
    _purge_well(cloud, UEFI, force=True)
    must(volumes(cloud, HERE, UEFI) == set(), f"left: {volumes(cloud, HERE, UEFI)}")
    for file in files:
        must(cloud.lab("ssh", HERE, f"ls -d {file}").status != 0, f"{file} is still there")


def _saved(cloud: Cloud) -> None:
    _make(cloud, SAVED, **NO_SEED)
    cloud.on(HERE, f"virsh snapshot-create-as {SAVED} s1 && virsh start {SAVED} && virsh managedsave {SAVED}")
    cloud.on(HERE, f"ls /var/lib/libvirt/qemu/save/{SAVED}.save /var/lib/libvirt/qemu/snapshot/{SAVED}/s1.xml")
    _purge_well(cloud, SAVED)
    must(volumes(cloud, HERE, SAVED) == set(), f"left: {volumes(cloud, HERE, SAVED)}")
    for file in (f"save/{SAVED}.save", f"snapshot/{SAVED}/s1.xml"):
        must(cloud.lab("ssh", HERE, f"ls /var/lib/libvirt/qemu/{file}").status != 0, f"{file} is still there")


def _checkpoint(cloud: Cloud) -> None:
    """As virt_backup leaves one in libvirt, which undefines no machine that has any."""
    place = f"{PLACE}/backups"
    cloud.on(HERE, f"mkdir -p {place}")
    _make(cloud, SAVED, start=True, **NO_SEED)
    answer, _result = module(cloud, HERE, "virt_backup", name=[SAVED], dest=place)
    must(answer.status == 0, answer.text)
    cloud.on(HERE, f"virsh destroy {SAVED}")
    (name,) = cloud.on(HERE, f"virsh checkpoint-list --name {SAVED}").split()
    file = f"/var/lib/libvirt/qemu/checkpoint/{SAVED}/{name}.xml"
    cloud.on(HERE, f"ls {file}")
    backup = cloud.on(HERE, f"find {place}/{SAVED} -type f").split()
    must(any(path.endswith("/vda.qcow2") for path in backup), f"the backup has {backup}")
    before = _sums(cloud, *backup)
    _purge_well(cloud, SAVED)
    must(volumes(cloud, HERE, SAVED) == set(), f"left: {volumes(cloud, HERE, SAVED)}")
    must(cloud.lab("ssh", HERE, f"ls {file}").status != 0, f"{file} is still there")
    must(_sums(cloud, *backup) == before, "the backup has changed")


def _keep_disks(cloud: Cloud) -> None:
    _make(cloud, SAVED)
    disk = f"{IMAGES}/{SAVED}-system.qcow2"
    before = _sums(cloud, disk)
    found = _purge_well(cloud, SAVED, keep_disks=True)
    must(found[f"{SAVED}-system.qcow2"] == "keep: keep_disks is set", str(found))
    must(volumes(cloud, HERE, SAVED) == {f"{SAVED}-system.qcow2"}, f"left: {volumes(cloud, HERE, SAVED)}")
    must(_sums(cloud, disk) == before, "the disk has changed")
    _forget(cloud, SAVED)


def _foreign(cloud: Cloud) -> None:
    first, second = (f"{IMAGES}/pur-foreign-{number}.qcow2" for number in (1, 2))
    disk = "<disk type='file'><driver name='qemu' type='qcow2'/><source file='{}'/><target dev='{}'/></disk>"
    disks = disk.format(first, "vda") + disk.format(second, "vdb")
    begin = f"<domain type='qemu'><name>{FOREIGN}</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>"
    xml = f"{begin}<devices>{disks}</devices></domain>"
    cloud.on(HERE, f"for f in {first} {second}; do qemu-img create -q -f qcow2 $f 8M; done; virsh pool-refresh default")
    cloud.on(HERE, f"cat >{PLACE}/foreign.xml <<'END' && virsh define {PLACE}/foreign.xml\n{xml}\nEND\n")
    _refused(cloud, FOREIGN, f"{FOREIGN} was not created by this collection")
    before = _sums(cloud, second)
    found = _purge_well(cloud, FOREIGN, adopt=True, disks=["vda"])
    must(found["pur-foreign-1.qcow2"] == "delete: disks names it", str(found))
    must(found["pur-foreign-2.qcow2"] == "keep: it was not created for this machine", str(found))
    must(_sums(cloud, second) == before and cloud.lab("ssh", HERE, f"ls {first}").status != 0, "the wrong disk went")


def _moving(cloud: Cloud) -> None:
    _make(cloud, SAVED, **NO_SEED)
    note = f'<move source="{HERE}" target="{THERE}" uri="qemu+tls://{THERE}/system" autostart="no"/>'
    cloud.on(HERE, f"virsh metadata {SAVED} urn:brine:virt:move:1 --key brinemove --config --set '{note}'")
    _refused(cloud, SAVED, f"{SAVED} is being moved from {HERE} to {THERE}, or its move was interrupted", force=True)
    _forget(cloud, SAVED)


def _killed(cloud: Cloud, step: int, moment: str) -> None:
    """The next run finishes, whenever it was; nothing else goes."""
    if (step, moment) == (0, "before"):
        DRIVER.install(cloud)
    clean, image = cloud.on(HERE, f"ls {IMAGES}"), _sums(cloud, _stored(cloud))
    answer = DRIVER.run(cloud, "new", "none")
    must(answer.status == 0, answer.text)
    DRIVER.run_killed(cloud, "purge", str(step), moment)
    answer, _result = _purge(cloud, KILLED, force=True)
    must(answer.status == 0, answer.text)
    must(KILLED not in cloud.on(HERE, "virsh list --all --name").split(), f"{KILLED} is still there")
    must(cloud.on(HERE, f"ls {IMAGES}") == clean, f"{IMAGES} has {cloud.on(HERE, f'ls {IMAGES}')}, not {clean}")
    must(_sums(cloud, _stored(cloud)) == image, "the stored image has changed")


def _playbook(cloud: Cloud) -> None:
    _make(cloud, TRAPS, THERE, start=True)
    cloud.listed()
    keys = cloud.lab_files / "known_hosts_machines"
    must(f" {TRAPS}\n" in keys.read_text(encoding="utf-8"), "its host keys are not known")
    before = cloud.state_of_all()
    answer = cloud.play("purge", "-e", f"vm={TRAPS}")
    must(answer.status != 0 and f"{THERE}: {TRAPS} is running, so it is not removed" in answer.one_line, answer.text)
    words = ("-e", f"vm={TRAPS}", "-e", "force=true")
    answer = cloud.play_well("purge", *words, "--check")
    must(cloud.state_of_all() == before, f"check mode has changed something: {answer.text}")
    for line in (
        f"{TRAPS} on {THERE} (running):",
        f"  delete default/{TRAPS}-system.qcow2: it belongs to this machine",
        f"  delete default/{TRAPS}-seed.iso: it belongs to this machine",
        "  delete the machine itself",
    ):
        must(line in answer.text.splitlines(), f"{line!r} is not in:\n{answer.text}")
    answer = cloud.play_well("purge", *words)
    # The machine, and the file of host keys.
    must(answer.recap("changed") == 2, answer.text)
    shown, done = answer.text.find(f"{TRAPS} on {THERE}"), answer.text.find("TASK [Remove the machines]")
    must(0 <= shown < done, f"it is not shown first:\n{answer.text}")
    must(f"\nRemoved: {TRAPS} on {THERE}\n" in answer.text, f"it is not said that it is gone:\n{answer.text}")
    must(volumes(cloud, THERE, TRAPS) == set(), "its volumes are still there")
    must(f" {TRAPS}\n" not in keys.read_text(encoding="utf-8"), "its host keys are still known")
    answer = cloud.play_well("purge", *words)
    must(answer.recap("changed") == 0 and f"{TRAPS}: there is no such machine on" in answer.text, answer.text)


def _two_homes(cloud: Cloud) -> None:
    for host in (HERE, THERE):
        _make(cloud, SAVED, host, **NO_SEED)
    before = cloud.state_of_all()
    text = cloud.play_well("list", "-e", f"vm={SAVED}", live=False).text
    rows = sorted(re.findall(rf"^{SAVED} +\S+ +(\S+)", text, re.MULTILINE))
    must(rows == sorted((HERE, THERE)), text)
    hosts = cloud.listed()["_meta"]["hostvars"]
    must({f"{SAVED}_{HERE}", f"{SAVED}_{THERE}"} <= set(hosts) and SAVED not in hosts, str(sorted(hosts)))
    answer = cloud.play("purge", "-e", f"vm={SAVED}", live=False)
    must(answer.status != 0 and f"there is a machine '{SAVED}' on each of" in answer.one_line, answer.text)
    must(cloud.state_of_all() == before, "something has changed")
    cloud.play_well("purge", "-e", f"vm={SAVED}", "-e", f"on={HERE}", live=False)
    must(volumes(cloud, HERE, SAVED) == set(), f"{HERE} still has it")
    must(volumes(cloud, THERE, SAVED) == {f"{SAVED}-system.qcow2"}, f"{THERE} does not have it")
    cloud.play_well("purge", "-e", f"vm={SAVED}", live=False)
    must(volumes(cloud, THERE, SAVED) == set(), f"{THERE} still has it")


def _mistakes(cloud: Cloud) -> None:
    before = cloud.state_of_all()
    for words, sentence in (
        ((), "No machine is named. Give its name with -e vm=NAME."),
        (("vm=pur*",), "pur* is not the name of a machine."),
        (("vm=all",), "all is not the name of a machine."),
        ((f"vm={OTHER}", "force=maybe"), "force is neither true nor false."),
        ((f"vm={OTHER}", "force=true", "on=hv9"), "on: there is no hypervisor 'hv9'."),
        ((f"vm={OTHER}", "force=true", "disks=vdz"), f"'vdz' is not a disk of machine {OTHER}"),
    ):
        answer = cloud.play("purge", *(part for word in words for part in ("-e", word)), live=False)
        must(answer.status != 0 and sentence in answer.one_line, f"{words}: {answer.text}")
        must("Traceback" not in answer.text, answer.text)
    must(cloud.state_of_all() == before, "something has changed")
