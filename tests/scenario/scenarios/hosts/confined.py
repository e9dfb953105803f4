# SPDX-License-Identifier: GPL-3.0-or-later
"""AppArmor: libvirt confines machines and all that they have, also with disks in pools its profiles do not know."""

from __future__ import annotations

import typing as t

from ...cloud import Cloud, must
from ...driving.consoles import wait_until_up
from ...driving.tasks import role_well
from ...needs import TINY, store_tiny
from ...own_kernel import HOST
from ...runner import ScenarioRun

NEEDS = ("own_kernel",)
KNOWN, ELSEWHERE = "/srv/scenario-vms", "/scenario/vms"
LOCAL = "/etc/apparmor.d/local/usr.lib.libvirt.virt-aa-helper"
PROFILE = "/etc/apparmor.d/usr.lib.libvirt.virt-aa-helper"
POOLS = [
    {"name": "default", "path": "/var/lib/libvirt/images"},
    {"name": "images", "path": "/var/lib/libvirt/virt-images"},
]
MORE = [{"name": "known", "path": KNOWN}, {"name": "elsewhere", "path": ELSEWHERE}]
# What libvirt's helper has to read to know what backs it, and may not by its ending.
PLAIN = f"{ELSEWHERE}/plain"
# With an image, a seed, and a disk in each pool.
GUEST: dict[str, t.Any] = {
    **TINY,
    "name": "confined1",
    "disks": [
        *TINY["disks"],
        {"name": "known", "pool": "known", "size": 16},
        {"name": "elsewhere", "pool": "elsewhere", "size": 16},
        {"name": "plain", "pool": "elsewhere", "source": "plain", "format": "qcow2"},
    ],
}
# What the firmware remembers, and the TPM's program. It finds nothing to boot.
FIRMWARE: dict[str, t.Any] = {
    **{"name": "confined2", "vcpus": 1, "memory": 192, "firmware": "efi", "tpm": True},
    **{"disk_profile": "none", "seed": {"method": "none"}, "nics": []},
}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("libvirt's driver for AppArmor is active", lambda: _active(cloud), vital=True)
        scenario.step("the role lets libvirt's helper read pools elsewhere", lambda: _role(cloud), vital=True)
        scenario.step("what a run that was cut off has left unloaded, the next one loads", lambda: _unloaded(cloud))
        scenario.step("a machine with image, seed and disks elsewhere runs confined", lambda: _guest(cloud))
        scenario.step("it can open no other file", lambda: _other_file(cloud))
        scenario.step("so does one with NVRAM and a TPM", lambda: _firmware(cloud))
        scenario.step("nothing that they need was denied", lambda: _denied(cloud))
        scenario.step("the pool goes from the list, and what the helper may read", lambda: _back(cloud))
        scenario.step("without it the machine would not start", lambda: _unreadable(cloud))
    finally:
        _clear(cloud)


def _active(cloud: Cloud) -> None:
    text = cloud.on(
        HOST, "aa-status --enabled && virsh capabilities | grep '<model>' && date +%s > /run/scenario-began"
    )
    must("<model>apparmor</model>" in text, text)


def _role(cloud: Cloud) -> None:
    for changes in (True, False):
        role_well(cloud, "virt_hypervisor", HOST, changes=changes, virt_hypervisor_pools=[*POOLS, *MORE])
    text = cloud.on(HOST, f"cat {LOCAL}")
    must(f'"{ELSEWHERE}/**" r,' in text and KNOWN not in text, text)


def _unloaded(cloud: Cloud) -> None:
    """That the helper may read them, the start of the machine shows."""
    aside = f"{LOCAL}.aside"
    cloud.on(HOST, f"mv {LOCAL} {aside}; touch {LOCAL}; apparmor_parser --replace {PROFILE}; mv {aside} {LOCAL}")
    role_well(cloud, "virt_hypervisor", HOST, changes=False, virt_hypervisor_pools=[*POOLS, *MORE])


def _confined(cloud: Cloud, name: str) -> None:
    """The process of a machine has a profile of its own, which is enforced."""
    label = cloud.on(HOST, f"tr -d '\\0' < /proc/$(cat /run/libvirt/qemu/{name}.pid)/attr/current").strip()
    uuid = cloud.on(HOST, f"virsh domuuid {name}").strip()
    must(label == f"libvirt-{uuid} (enforce)", f"{name} is {label}")


def _guest(cloud: Cloud) -> None:
    store_tiny(cloud, HOST)
    # What backs it is in a place of its own, which only its own first bytes say.
    cloud.on(
        HOST,
        f"qemu-img create -q -f qcow2 {ELSEWHERE}/base 16M && virsh -q pool-refresh elsewhere"
        f" && qemu-img create -q -f qcow2 -F qcow2 -b {ELSEWHERE}/base {PLAIN} && virsh -q pool-refresh elsewhere",
    )
    for changes in (True, False):
        answer, result = cloud.init(HOST, **GUEST)
        must(answer.status == 0 and result["changed"] is changes, answer.text)
    wait_until_up(cloud, HOST, "confined1")
    _confined(cloud, "confined1")
    files = cloud.on(HOST, "cat /etc/apparmor.d/libvirt/libvirt-$(virsh domuuid confined1).files")
    must(all(f'"{path}"' in files for path in (PLAIN, f"{ELSEWHERE}/base")), files)


def _other_file(cloud: Cloud) -> None:
    cloud.on(HOST, f"qemu-img create -q -f raw {KNOWN}/other.raw 1M && chmod 666 {KNOWN}/other.raw && ls -l {KNOWN}")
    add = "drive_add 0 if=none,id=scenario,format=raw,file="
    text = cloud.on(HOST, f"virsh qemu-monitor-command confined1 --hmp '{add}{KNOWN}/other.raw'")
    must("Permission denied" in text, text)


def _firmware(cloud: Cloud) -> None:
    answer, _result = cloud.init(HOST, **FIRMWARE)
    must(answer.status == 0, answer.text)
    must(cloud.on(HOST, "LC_ALL=C virsh domstate confined2").strip() == "running", "it does not run")
    _confined(cloud, "confined2")
    nvram = cloud.on(HOST, "virsh dumpxml confined2 | sed -n 's:.*<nvram[^>]*>\\(.*\\)</nvram>.*:\\1:p'").strip()
    cloud.on(HOST, f"test -s {nvram} && pgrep -x swtpm")
    # Firmware that looks for something to boot would take the host's one processor from all that follows.
    cloud.on(HOST, "virsh destroy confined2")


def _denied(cloud: Cloud) -> None:
    said = cloud.on(
        HOST,
        "journalctl --dmesg --no-pager --since @$(cat /run/scenario-began) | grep 'apparmor=\"DENIED\"'"
        # Debian's profiles for machines keep OpenSSL's configuration from swtpm, which goes on without.
        f' | grep -v -e \'name="{KNOWN}/other.raw"\' -e \'name="/etc/ssl/openssl.cnf".*comm="swtpm"\' || true',
    )
    must(not said.strip(), said)


def _back(cloud: Cloud) -> None:
    role_well(cloud, "virt_hypervisor", HOST, changes=True, virt_hypervisor_pools=[*POOLS, MORE[0]])
    must(ELSEWHERE not in cloud.on(HOST, f"cat {LOCAL}"), "the helper may still read it")


def _unreadable(cloud: Cloud) -> None:
    # A libvirtd that begins just then may say that it has found it dead.
    cloud.on(HOST, "virsh destroy confined1; LC_ALL=C virsh domstate confined1 | grep 'shut off'")
    text = cloud.on(HOST, "virsh start confined1 2>&1 || true")
    must("error" in text, f"it starts, so the role's lines are for nothing: {text}")


def _clear(cloud: Cloud) -> None:
    cloud.lab(
        "ssh",
        HOST,
        "for name in confined1 confined2; do virsh destroy $name; virsh undefine $name --nvram --tpm; done;"
        f" for pool in known elsewhere; do virsh pool-destroy $pool; virsh pool-undefine $pool; done;"
        f" rm -rf {KNOWN} {ELSEWHERE} /run/scenario-began",
    )
