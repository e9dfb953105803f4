# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups of a machine with UEFI and a TPM: its variables and the state of its TPM come back byte by byte, under
another name, on the other hypervisor, and in their place.

It has nothing to boot. That its firmware writes when it starts, and swtpm too, is enough.
"""

from __future__ import annotations

import typing as t

from ...cloud import FLEET, Cloud, must
from ...driving.tasks import module
from ...moving import hand_over
from ...runner import ScenarioRun

NEEDS = ("hypervisors",)
HOST, OTHER = FLEET
MACHINE, COPY = "firm1", "firm1-copy"
PLACE = "/srv/scenario-firmware"
FIRMWARE: dict[str, t.Any] = {
    **{"name": MACHINE, "vcpus": 1, "memory": 192, "firmware": "efi", "tpm": True},
    **{"disk_profile": "none", "disks": [{"name": "system", "size": 16}], "seed": {"method": "none"}, "nics": []},
}
_BOOT_SECONDS = 300
# What _states says at each backup, by the backup's id.
_kept: dict[str, tuple[str, ...]] = {}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("a machine whose firmware and TPM have written", lambda: _begin(cloud), vital=True)
        scenario.step("a backup of it, while it runs and while it is off", lambda: _back_up(cloud), vital=True)
        scenario.step("under another name it has both, and starts with them", lambda: _beside(cloud))
        scenario.step("so it does on the other hypervisor", lambda: _elsewhere(cloud))
        scenario.step("put back, it has those of an earlier backup", lambda: _replace(cloud))
    finally:
        _clear(cloud)


def _states(cloud: Cloud, host: str, name: str) -> tuple[str, ...]:
    """The checksums of its UEFI variables, and of each file of its TPM's state."""
    return _sums(
        cloud, host, f"/var/lib/libvirt/qemu/nvram/{name}_VARS.fd /var/lib/libvirt/swtpm/$(virsh domuuid {name})/tpm2/*"
    )


def _in_backup(cloud: Cloud, host: str, backup: str) -> tuple[str, ...]:
    return _sums(cloud, host, f"{PLACE}/{MACHINE}/{backup}/nvram.fd {PLACE}/{MACHINE}/{backup}/tpm-*")


def _sums(cloud: Cloud, host: str, files: str) -> tuple[str, ...]:
    """Of files of which none is empty. Raises Failure when one is missing."""
    said = cloud.on(host, f"set -e; for file in {files}; do test -s $file; sha256sum < $file; done")
    found = tuple(line.split()[0] for line in said.splitlines())
    must(len(found) >= 2, f"{files}: {said}")
    return found


def _begin(cloud: Cloud) -> None:
    for host in FLEET:
        cloud.on(host, f"mkdir -p {PLACE}")
    answer, _result = cloud.init(HOST, **FIRMWARE)
    must(answer.status == 0, answer.text)
    # Until the variables are others than those that every machine begins with.
    template = f"$(virsh dumpxml {MACHINE} | sed -n \"s:.*<nvram.* template='\\([^']*\\)'.*:\\1:p\")"
    cloud.on(
        HOST,
        f"template={template}; test -s $template; for i in $(seq {_BOOT_SECONDS}); do"
        f" cmp -s $template /var/lib/libvirt/qemu/nvram/{MACHINE}_VARS.fd || exit 0; sleep 1; done; exit 1",
    )
    # It looks for something to boot, with all of a processor.
    cloud.on(HOST, f"sleep 5; virsh suspend {MACHINE}")


def _back_up(cloud: Cloud) -> None:
    for running in (True, False):
        if not running:
            cloud.on(HOST, f"virsh destroy {MACHINE}")
        now = _states(cloud, HOST, MACHINE)
        answer, result = module(cloud, HOST, "virt_backup", name=[MACHINE], dest=PLACE, verify=True)
        must(answer.status == 0, answer.text)
        made = result["machines"][0]["id"]
        must(_in_backup(cloud, HOST, made) == now, f"{made} has others")
        _kept[made] = now


def _is_as_in(cloud: Cloud, host: str, name: str, backup: str) -> None:
    must(_states(cloud, host, name) == _kept[backup], f"{name} has others than {backup}")


def _starts(cloud: Cloud, host: str, name: str) -> None:
    """With them: swtpm refuses a state that it cannot read."""
    cloud.on(host, f"virsh start {name} && sleep 5")
    uuid = cloud.on(host, f"virsh domuuid {name}").strip()
    cloud.on(
        host, f"LC_ALL=C virsh domstate {name} | grep running && pgrep -f 'swtpm .*{uuid}' && virsh destroy {name}"
    )


def _beside(cloud: Cloud) -> None:
    for backup in _kept:
        answer, result = module(cloud, HOST, "virt_restore", src=PLACE, machine=MACHINE, name=COPY, backup=backup)
        must(answer.status == 0 and result["new_identity"] and not result["remarks"], answer.text)
        _is_as_in(cloud, HOST, COPY, backup)
        _starts(cloud, HOST, COPY)
        cloud.play_well("purge", "-e", f"vm={COPY}")
    _is_as_in(cloud, HOST, MACHINE, max(_kept))


def _elsewhere(cloud: Cloud) -> None:
    hand_over(cloud, HOST, OTHER, PLACE)
    cloud.play_well("purge", "-e", f"vm={MACHINE}")
    cloud.play_well("restore", "-e", f"vm={MACHINE}", "-e", f"src={PLACE}", "-e", f"on={OTHER}", live=False)
    _is_as_in(cloud, OTHER, MACHINE, max(_kept))
    _starts(cloud, OTHER, MACHINE)


def _replace(cloud: Cloud) -> None:
    nvram = f"/var/lib/libvirt/qemu/nvram/{MACHINE}_VARS.fd"
    # Something that it would not begin with.
    cloud.on(OTHER, f"printf changed | dd of={nvram} bs=1 seek=4096 conv=notrunc status=none")
    oldest = min(_kept)
    answer, _result = module(cloud, OTHER, "virt_restore", src=PLACE, machine=MACHINE, replace=True, backup=oldest)
    must(answer.status == 0, answer.text)
    _is_as_in(cloud, OTHER, MACHINE, oldest)
    _starts(cloud, OTHER, MACHINE)
    cloud.play_well("purge", "-e", f"vm={MACHINE}")
    left = cloud.on(OTHER, f"ls {nvram} 2>&1; ls /var/lib/libvirt/swtpm; :")
    must("No such file" in left and len(left.splitlines()) == 1, left)


def _clear(cloud: Cloud) -> None:
    for host in FLEET:
        for name in (MACHINE, COPY):
            cloud.on(host, f"virsh destroy {name}; virsh undefine {name} --nvram --tpm; :")
        cloud.on(host, f"rm -rf {PLACE}")
