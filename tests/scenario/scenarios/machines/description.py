# SPDX-License-Identifier: GPL-3.0-or-later
"""Every option of virt_init on a real hypervisor: check, run, check, run, and what virsh and qemu-img then see.

The machines of a step are one task, so that the whole of it takes seconds.
"""

from __future__ import annotations

import json
import shlex
import typing as t

from ...cloud import Cloud, must
from ...needs import TINY
from ...runner import ScenarioRun
from .provisioning import validate_all

NEEDS = ("hypervisors", "tiny")
OFF: dict[str, t.Any] = {**TINY, "start": False}
HOST = "hv1"
LOG = "/var/log/libvirt/qemu"
# What the small guest says when it is up.
UP = '"guest has"'

# What is requested for a new machine, and what then stands in its definition.
NEW: dict[str, tuple[dict[str, t.Any], tuple[str, ...]]] = {
    "vcpus": ({"vcpus": {"current": 1, "maximum": 4, "cpuset": "0-1"}}, ("vcpu[@current='1'][@cpuset='0-1'][.='4']",)),
    "memory": (
        {"memory": {"current": 96, "maximum": "192MiB", "hard_limit": "1GiB", "nosharepages": True}},
        ("memory[.='196608']", "currentMemory[.='98304']", "memtune/hard_limit[.='1048576']", "memoryBacking"),
    ),
    "backing": (
        {"memory": {"maximum": 128, "source": "memfd", "access": "shared", "allocation": "ondemand"}},
        ("memoryBacking/source[@type='memfd']", "memoryBacking/access[@mode='shared']"),
    ),
    "hugepages": ({"memory": {"maximum": 128, "hugepages": [2]}}, ("memoryBacking/hugepages/page[@size='2048']",)),
    "cpumodel": (
        {"cpu": {"model": "Westmere", "features": {"aes": "disable"}}},
        ("cpu[@mode='custom']/model[.='Westmere']", "cpu/feature[@policy='disable'][@name='aes']"),
    ),
    "cpumode": ({"cpu_mode": "maximum"}, ("cpu[@mode='maximum']",)),
    "topology": (
        {"vcpus": 4, "cpu": {"topology": {"sockets": 2, "cores": 2}}},
        ("cpu/topology[@sockets='2'][@cores='2'][@threads='1']",),
    ),
    "numa": (
        {
            "vcpus": 2,
            "memory": 256,
            "cpu": {"numa": [{"cpus": "0", "memory": 128}, {"cpus": "1", "memory": 128}]},
            "numatune": {"memory": {"mode": "preferred", "nodeset": "0"}},
        },
        ("cpu/numa/cell[@id='1'][@memory='131072']", "numatune/memory[@mode='preferred']"),
    ),
    "tuning": (
        {"cpu": {"tuning": {"shares": 512, "vcpupin": {0: "1"}, "emulatorpin": "0"}, "iothreads": 2}},
        ("cputune/shares[.='512']", "cputune/vcpupin[@cpuset='1']", "cputune/emulatorpin", "iothreads[.='2']"),
    ),
    "pc": ({"machine_type": "pc"}, ("os/type[starts-with(@machine, 'pc-i440fx')]",)),
    "efi": ({"firmware": "efi"}, ("os[@firmware='efi']",)),
    "secure": (
        {"secure_boot": True},
        ("os[@firmware='efi']/firmware/feature[@name='secure-boot'][@enabled='yes']", "features/smm[@state='on']"),
    ),
    "boot": (
        {"boot": {"devices": ["network", "hd"], "menu": True}},
        ("os/boot[1][@dev='network']", "os/boot[2][@dev='hd']", "os/bootmenu[@enable='yes']"),
    ),
    "kernel": (
        {"boot": {"kernel": "/vmlinuz", "initrd": "/initrd.img", "cmdline": 'console=ttyS0 a=<&">'}},
        ("os/kernel[.='/vmlinuz']", "os/initrd", "os/cmdline[contains(., '<&')]"),
    ),
    "serials": (
        {"serials": [{"port": 4555, "protocol": "telnet"}, "pty"]},
        ("devices/serial[@type='tcp']/source[@host='127.0.0.1'][@service='4555']", "devices/serial[@type='pty']"),
    ),
    "vnc": (
        {"graphics": {"type": "vnc", "password": "secret12"}},
        ("devices/graphics[@type='vnc'][@autoport='yes']/listen[@address='127.0.0.1']", "devices/video/model"),
    ),
    "video": ({"video": {"model": "vga", "vram": 32768}}, ("devices/video/model[@type='vga'][@vram='32768']",)),
    "rng": ({"rng": {"bytes": 1024, "period": 1000}}, ("devices/rng/rate[@bytes='1024']",)),
    "norng": ({"rng": False}, ("devices[not(rng)]",)),
    "watchdog": ({"watchdog": "poweroff"}, ("devices/watchdog[@model='i6300esb'][@action='poweroff']",)),
    "clock": (
        {"clock": {"timezone": "Europe/Vienna", "timers": {"rtc": {"tickpolicy": "catchup"}, "hpet": False}}},
        ("clock[@timezone='Europe/Vienna']/timer[@name='hpet'][@present='no']",),
    ),
    "events": ({"events": {"reboot": "destroy", "crash": "restart"}}, ("on_reboot[.='destroy']", "on_crash")),
    "features": (
        {"features": {"kvm-hidden": True, "hyperv": {"relaxed": True}}},
        ("features/kvm/hidden[@state='on']", "features/hyperv/relaxed[@state='on']"),
    ),
    "tpm": ({"tpm": True}, ("devices/tpm[@model='tpm-crb']/backend[@type='emulator'][@version='2.0']",)),
    "folders": (
        {"shared_folders": [{"source": "/srv", "tag": "srv"}]},
        ("devices/filesystem[driver/@type='virtiofs'][source/@dir='/srv'][target/@dir='srv']", "memoryBacking/access"),
    ),
    "usb": ({"host_devices": ["1d6b:0002"]}, ("devices/hostdev[@type='usb']/source/vendor[@id='0x1d6b']",)),
    "xml": (
        {"xml": "<devices><sound model='ich9'/></devices><resource><partition>/machine</partition></resource>"},
        ("devices/sound[@model='ich9']", "resource/partition"),
    ),
    "disks": (
        {
            "disks": [
                {"name": "system", "cache": "none", "io": "native", "discard": "ignore", "serial": "S1"},
                {"name": "scsi", "size": 16, "model": "scsi", "format": "raw", "readonly": True},
                {"name": "sata", "size": 16, "model": "sata", "detect_zeroes": "on"},
                {"name": "shared", "size": 16, "shareable": True, "format": "raw", "boot_order": 2},
                {"name": "cd", "device": "cdrom"},
                {"name": "fd", "device": "floppy"},
            ],
            "machine_type": "pc",
        },
        (
            "devices/disk[serial='S1']/driver[@cache='none'][@io='native'][@discard='ignore'][@type='qcow2']",
            "devices/disk[readonly][target/@bus='scsi']/driver[@type='raw']",
            "devices/disk[target/@bus='sata']/driver[@detect_zeroes='on']",
            "devices/disk[shareable][boot/@order='2']",
            "devices/disk[@device='cdrom'][not(source)]",
            "devices/disk[@device='floppy']/target[@bus='fdc']",
        ),
    ),
    "nics": (
        {
            "nics": [
                {"name": "eth0", "link": "down", "mtu": 1400, "boot_order": 1},
                {"name": "eth1", "model": "e1000", "filter": "clean-traffic"},
                {"name": "eth2", "queues": 2, "bandwidth": {"inbound": {"average": 1000, "peak": 2000}}},
                {"name": "eth3", "direct": "host0", "mode": "private"},
            ]
        },
        (
            "devices/interface[link/@state='down']/mtu[@size='1400']",
            "devices/interface[model/@type='e1000']/filterref[@filter='clean-traffic']",
            "devices/interface/bandwidth/inbound[@average='1000'][@peak='2000']",
            "devices/interface[@type='direct']/source[@dev='host0'][@mode='private']",
        ),
    ),
    "salt": (
        {
            "vcpus": None,
            "memory": None,
            "cpu": 2,
            "mem": 160,
            "disks": None,
            "disk": "default",
            "interfaces": {"eth0": {"bridge": "br0", "mac": "52:54:00:12:34:56"}},
            "enable_vnc": True,
            "enable_qcow": True,
            "stop_on_reboot": True,
            "boot_dev": "network hd",
        },
        (
            "vcpu[.='2']",
            "memory[.='163840']",
            "devices/graphics[@type='vnc']",
            "devices/interface/mac[@address='52:54:00:12:34:56']",
            "on_reboot[.='destroy']",
            "os/boot[1][@dev='network']",
        ),
    ),
    "words": (
        {
            "title": "A <title> & more",
            "description": "Two\nlines ]]>",
            "tags": ["a", "b"],
            "variables": {"x": "<y>"},
        },
        ("title[.='A <title> & more']", "description"),
    ),
}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step(f"{len(NEW)} new machines, each with other options", lambda: _new(cloud))
    scenario.step("virt-xml-validate accepts every machine", lambda: validate_all(cloud))
    scenario.step("the same options for machines that were there without them", lambda: _later(cloud))
    scenario.step("virt-xml-validate still accepts every machine", lambda: validate_all(cloud))
    scenario.step("what the lab can run, runs with its options", lambda: _running(cloud))
    scenario.step("a running machine gets disks, space, nics, a medium, vCPUs and memory at once", lambda: _live(cloud))
    scenario.step("and gives a disk and a nic back; no volume is deleted", lambda: _given_back(cloud))
    scenario.step("a password appears nowhere, and changes in a running machine", lambda: _password(cloud))
    scenario.step("disks on existing volumes, on a backing volume, and of other formats", lambda: _volumes(cloud))
    scenario.step("all of these machines go", lambda: _away(cloud))


def _named(prefix: str, without: t.Collection[str] = ()) -> list[dict[str, t.Any]]:
    specs = [{**OFF, **spec, "name": f"{prefix}-{name}"} for name, (spec, _paths) in NEW.items() if name not in without]
    return [{key: value for key, value in spec.items() if value is not None} for spec in specs]


def quartet(cloud: Cloud, machines: list[dict[str, t.Any]], **more: t.Any) -> None:
    """Check, run, check, run of one task; the first two change every machine, the others none."""
    for check, changed in ((True, True), (False, True), (True, False), (False, False)):
        answer, result = cloud.init(HOST, check=check, machines=machines, **more)
        must(answer.status == 0, answer.text)
        wrong = [machine for machine in result["machines"] if machine["changed"] is not changed]
        must(not wrong, f"check {check}: changed is not {changed}: {wrong}")


def must_have(cloud: Cloud, name: str, paths: t.Iterable[str], *flags: str) -> None:
    """The definition of a machine, persistent or with other flags of virsh dumpxml, has all of these (XPath)."""
    show = shlex.join(["virsh", "dumpxml", name, *(flags or ("--inactive",))])
    looks = "; ".join(
        f"{show} --xpath {shlex.quote('/domain/' + path)} 2>&1 | grep -q '<' || echo {shlex.quote(path)}"
        for path in paths
    )
    lacking = cloud.on(HOST, looks)
    must(not lacking.strip(), f"{name} has not:\n{lacking}\n{cloud.on(HOST, show)}")


def _new(cloud: Cloud) -> None:
    quartet(cloud, _named("new"))
    for name, (_spec, paths) in NEW.items():
        must_have(cloud, f"new-{name}", paths)


def _later(cloud: Cloud) -> None:
    # Firmware and machine type belong to the installed system; the profile of the Salt words is larger than TINY's.
    without = ("pc", "efi", "secure", "disks", "salt", "nics")
    base = [{**OFF, "name": spec["name"]} for spec in _named("old", without)]
    answer, _result = cloud.init(HOST, machines=base)
    must(answer.status == 0, answer.text)
    quartet(cloud, _named("old", without))
    for spec in _named("old", without):
        must_have(cloud, spec["name"], NEW[spec["name"].removeprefix("old-")][1])
    # And back to the bare spec: what is not named stays.
    answer, result = cloud.init(HOST, check=True, machines=[{**spec, "vcpus": 1} for spec in base[8:12]])
    must(not any(machine["changed"] for machine in result["machines"]), answer.text)


def _running(cloud: Cloud) -> None:
    names: tuple[str, ...] = (
        "vcpus",
        "backing",
        "cpumode",
        "cpumodel",
        "topology",
        "serials",
        "vnc",
        "norng",
        "watchdog",
        "tpm",
    )
    # CPU tuning and hugepages are beyond a host in a container.
    names = (*names, "clock", "words", "xml", "disks")
    machines = [{**spec, "start": True} for spec in _named("new") if spec["name"].removeprefix("new-") in names]
    for change in (True, False):
        answer, result = cloud.init(HOST, machines=machines)
        must(answer.status == 0, answer.text)
        must(all(machine["changed"] is change for machine in result["machines"]), answer.text)
        must(not any(machine["restart_required"] for machine in result["machines"]), answer.text)
    for spec in machines:
        must_have(cloud, spec["name"], NEW[spec["name"].removeprefix("new-")][1])
        cloud.on(HOST, f"virsh destroy {spec['name']}")


LIVE: dict[str, t.Any] = {
    **TINY,
    "name": "live",
    "vcpus": {"current": 1, "maximum": 2},
    "memory": {"current": 128, "maximum": 160},
    "nics": [{"name": "eth0"}],
    "disks": [{"name": "system", "size": 256}, {"name": "cd", "device": "cdrom"}],
}
MORE: dict[str, t.Any] = {
    **LIVE,
    "vcpus": {"current": 2, "maximum": 2},
    "memory": {"current": 144, "maximum": 160},
    "nics": [{"name": "eth0", "link": "down"}, {"name": "eth1"}],
    "disks": [
        {"name": "system", "size": 300},
        {"name": "cd", "device": "cdrom", "source": "medium.iso"},
        {"name": "more", "size": 64},
        {"name": "scsi", "size": 32, "model": "scsi"},
    ],
}


def _live(cloud: Cloud) -> None:
    cloud.on(HOST, "virsh vol-create-as default medium.iso 1M --format raw >/dev/null")
    answer, _result = cloud.init(HOST, machines=[LIVE])
    must(answer.status == 0, answer.text)
    quartet(cloud, [MORE])
    _answer, result = cloud.init(HOST, check=True, machines=[MORE])
    must(result["machines"][0]["pending"] == [], str(result["machines"][0]["pending"]))
    for flags in (("--security-info",), ("--inactive",)):
        paths = (
            "vcpu[@current='2' or not(@current)][.='2']",
            "devices/disk[@device='cdrom']/source[contains(@file, 'medium.iso')]",
            "devices/disk[serial='more']",
            "devices/disk[serial='scsi']/target[@bus='scsi']",
            "devices[count(interface)=2]/interface[link/@state='down']",
        )
        must_have(cloud, "live", paths, *flags)
    must("314572800" in cloud.on(HOST, "virsh domblkinfo live vda"), "the running machine's disk has not grown")
    must("virtual size: 300 MiB" in cloud.on(HOST, "qemu-img info -U /var/lib/libvirt/images/live-system.qcow2"), "")
    # What a running machine cannot take waits, and is said until it has been restarted.
    spec = {**MORE, "clock": "localtime", "disks": [*MORE["disks"], {"name": "sata", "size": 16, "model": "sata"}]}
    for changed in (True, False):
        answer, result = cloud.init(HOST, machines=[spec])
        machine = result["machines"][0]
        must(machine["changed"] is changed, answer.text)
        waits = ["clock", "disks.sata"] if changed else ["clock"]
        must(set(waits) <= set(machine["pending"]) and machine["restart_required"], answer.text)
    cloud.on(HOST, "virsh destroy live; virsh start live")
    answer, result = cloud.init(HOST, machines=[spec])
    must(result["changed"] is False and not result["machines"][0]["restart_required"], answer.text)


def _given_back(cloud: Cloud) -> None:
    """The guest has to be up to let go of a device."""
    cloud.on(HOST, f"for i in $(seq 60); do grep -q {UP} {LOG}/live-serial.log && break; sleep 1; done")
    gone = {
        **MORE,
        "disks": [disk if disk["name"] != "more" else {"name": "more", "state": "absent"} for disk in MORE["disks"]],
        "nics": [{"name": "eth0", "link": "down"}, {"name": "eth1", "state": "absent"}],
    }
    quartet(cloud, [gone])
    for flags in (("--inactive",), ("--security-info",)):
        must_have(cloud, "live", ["devices[count(interface)=1][not(disk[serial='more'])]"], *flags)
    must("live-more.qcow2" in cloud.on(HOST, "virsh vol-list default"), "the volume has gone")
    answer, result = cloud.init(HOST, check=True, machines=[MORE])
    must(answer.status != 0 and "source: live-more.qcow2" in result["msg"], answer.text)
    back = {**gone, "disks": [*gone["disks"][:2], {"name": "more", "source": "live-more.qcow2"}, gone["disks"][3]]}
    quartet(cloud, [back])
    cloud.on(HOST, "virsh destroy live")


def _password(cloud: Cloud) -> None:
    spec = {**TINY, "name": "console", "graphics": {"type": "vnc", "password": "first-12"}}
    for password, changed in (("first-12", True), ("other-12", True), ("other-12", False)):
        spec["graphics"] = {"type": "vnc", "password": password}
        answer, result = cloud.init(HOST, machines=[spec])
        must(answer.status == 0 and result["changed"] is changed and password not in answer.text, answer.text)
        must(not result["machines"][0]["restart_required"], answer.text)
        for flags in ("--security-info", "--security-info --inactive"):
            must(f"passwd='{password}'" in cloud.on(HOST, f"virsh dumpxml {flags} console"), "another password")
    secret = "$6$salt$" + "s" * 40
    spec["seed"] = {"password_hash": secret, "authorized_keys": []}
    answer = cloud.ansible(HOST, "brine.virt.virt_init", json.dumps({"machines": [spec]}), "-vvv", "--diff")
    must(answer.status == 0 and '"outdated"' in answer.text, answer.text)
    for word in ("other-12", secret):
        must(word not in answer.text, f"{word} is in the output of -vvv")
    logged = cloud.on(HOST, "journalctl --quiet --since=-1h | grep -c -e other-12 -e 'salt.ssssss' || true")
    must(logged.strip() == "0", f"a secret is in the hypervisor's log: {logged}")
    del spec["seed"]
    # A change of something else must not take the password away.
    answer, _result = cloud.init(HOST, machines=[{**spec, "memory": 160}])
    must(answer.status == 0, answer.text)
    must("passwd='other-12'" in cloud.on(HOST, "virsh dumpxml --security-info --inactive console"), "no password")
    cloud.on(HOST, "virsh destroy console")


def _volumes(cloud: Cloud) -> None:
    folder = "/var/lib/libvirt/images"
    cloud.on(
        HOST,
        f"cd {folder}; qemu-img create -q -f qcow2 own.raw 8M; qemu-img create -q -f raw base.qcow2 8M;"
        " virsh pool-refresh default >/dev/null",
    )
    disks = [
        {"name": "own", "source": "own.raw", "format": "qcow2"},
        {"name": "path", "source": f"{folder}/base.qcow2", "readonly": True, "format": "raw"},
        {"name": "over", "backing": {"volume": "base.qcow2", "format": "raw"}, "size": 16},
    ]
    spec = {**OFF, "name": "vols", "disk_profile": "none", "disks": disks}
    quartet(cloud, [{key: value for key, value in spec.items() if key != "image"}])
    # The names lie about the formats, and the task's word counts.
    paths = (
        "devices/disk[source[contains(@file, 'own.raw')]]/driver[@type='qcow2']",
        "devices/disk[source[contains(@file, 'base.qcow2')]]/driver[@type='raw']",
    )
    must_have(cloud, "vols", paths)
    info = cloud.on(HOST, f"qemu-img info {folder}/vols-over.qcow2")
    must("backing file format: raw" in info and "virtual size: 16 MiB" in info, info)
    for change, words in (
        ({"name": "own", "source": "own.raw", "format": "raw"}, "is of format qcow2"),
        ({"name": "own", "source": "owm.raw"}, "Did you mean own.raw?"),
        ({"name": "own", "source": "own.raw", "size": 64}, "has the size of"),
        ({"name": "over", "backing": "base.qcow2", "size": "4MiB"}, "is less than"),
        ({"name": "over", "backing": "console-system.qcow2", "size": 400}, "writes to volume"),
        ({"name": "own", "source": "console-system.qcow2"}, "is a disk of machine console"),
    ):
        answer, result = cloud.init(HOST, **{**spec, "image": None, "name": "vols2", "disks": [change]})
        must(answer.status != 0 and words in result["msg"], answer.text)


def _away(cloud: Cloud) -> None:
    cloud.on(
        HOST,
        "for m in $(virsh list --all --name | grep -E '^(new-|old-|live$|console$|vols$)'); do"
        " virsh destroy $m >/dev/null 2>&1; virsh undefine --nvram $m >/dev/null; done;"
        " for v in $(virsh vol-list default | awk '{print $1}' | grep -E '^(new-|old-|live-|console-|vols-|own.raw|"
        "base.qcow2|medium.iso)'); do virsh vol-delete $v --pool default >/dev/null; done",
    )
    must("new-" not in cloud.state(HOST), "something is left")
