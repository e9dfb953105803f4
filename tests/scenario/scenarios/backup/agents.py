# SPDX-License-Identifier: GPL-3.0-or-later
"""A Debian whose guest agent freezes its file systems: backups and a snapshot are what they say, and it comes back on
the other hypervisor as the machine that it was.

An ext4 file system that is in use says so in its superblock (the feature needs_recovery), also on the disk; while it is
frozen it does not.
"""

from __future__ import annotations

import shlex
import typing as t

from ...cloud import FLEET, Cloud, must
from ...driving.tasks import module
from ...moving import address, forget, hand_over, home, inside, migrate
from ...needs import NEWER, WEB
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "web1", "newer")
PLACE = "/srv/scenario-frozen"
# Of the guest: its agent freezes only after so long, in which libvirtd is restarted.
_HOOK, _CONF, _HOOK_SECONDS = "/usr/local/sbin/scenario-hook", "/etc/qemu/qemu-ga.conf", 40
# After a restore it boots.
_UP_SECONDS = 900
# https://docs.kernel.org/filesystems/ext4/super.html: s_magic, s_feature_incompat, INCOMPAT_RECOVER.
_MAGIC, _FEATURES, _NEEDS_RECOVERY = 1024 + 0x38, 1024 + 0x60, 0x4


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("a backup says that the agent froze the file systems, and it did", lambda: _back_up(cloud))
        scenario.step("libvirtd is restarted before it is frozen, and it goes on all the same", lambda: _restart(cloud))
        scenario.step("on the other hypervisor it has the host key that it had", lambda: _elsewhere(cloud))
        scenario.step(f"so does a snapshot of its disks alone, on {NEWER}", lambda: _snapshot(cloud))
    finally:
        forget(cloud, WEB)
        for host in cloud.hosts:
            cloud.on(host, f"rm -rf {PLACE}")


def _froze(cloud: Cloud) -> int:
    """How often its agent says that it froze the file systems."""
    return int(inside(cloud, WEB, "journalctl -b -t qemu-ga -o cat | grep -c 'guest-fsfreeze called' || true"))


def _goes_on(cloud: Cloud, host: str) -> None:
    """Its file systems are not frozen."""
    asked = shlex.quote('{"execute": "guest-fsfreeze-status"}')
    said = cloud.on(host, f"virsh qemu-agent-command {WEB} {asked}")
    must('"thawed"' in said, said)
    inside(cloud, WEB, "date > /var/tmp/written && sync")


def _is_clean(cloud: Cloud, host: str, image: str) -> bool:
    """Whether the file system on a disk was frozen, or unmounted, when the image came to be."""
    found = cloud.on(
        host,
        f"qemu-img dd -U -f qcow2 -O raw bs=4096 count=1 if={image} of=/tmp/superblock >/dev/null;"
        f" od -An -tu4 -j {_FEATURES} -N 4 /tmp/superblock; od -An -tx2 -j {_MAGIC} -N 2 /tmp/superblock;"
        " rm /tmp/superblock",
    )
    features, magic = found.split()
    must(magic == "ef53", f"{image} is no ext4: {found}")
    return not int(features) & _NEEDS_RECOVERY


def _back_up(cloud: Cloud) -> None:
    here = home(cloud, WEB)
    cloud.on(here, f"mkdir -p {PLACE}")
    for quiesce in ("true", "false", "auto"):
        before = _froze(cloud)
        answer, result = module(cloud, here, "virt_backup", name=[WEB], dest=PLACE, quiesce=quiesce)
        must(answer.status == 0, answer.text)
        made = result["machines"][0]
        frozen = quiesce != "false"
        must(made["quiesced"] is frozen, str(made))
        must(_froze(cloud) == before + frozen, f"{quiesce}: the agent froze them {_froze(cloud) - before} times")
        must(_is_clean(cloud, here, f"{PLACE}/{WEB}/{made['id']}/vda.qcow2") is frozen, f"{quiesce}: it is not so")
        _goes_on(cloud, here)


def _restart(cloud: Cloud) -> None:
    """Nobody but the run knows then that the guest was asked to freeze."""
    here = home(cloud, WEB)
    hook = f"#!/bin/sh\n[ $1 != freeze ] || sleep {_HOOK_SECONDS}\n"
    inside(
        cloud,
        WEB,
        f"printf {shlex.quote(hook)} > {_HOOK}; chmod 0755 {_HOOK}; mkdir -p {_CONF.rpartition('/')[0]};"
        f" printf '[general]\nfsfreeze-hook={_HOOK}\n' > {_CONF}; systemctl restart qemu-guest-agent",
    )
    before = _froze(cloud)
    script = (
        "for i in $(seq 600); do pgrep -f '[A]nsiballZ_virt_backup' && break; sleep 0.1; done;"
        f" sleep {_HOOK_SECONDS // 2}; systemctl restart libvirtd"
    )
    cloud.on(here, f"({script}) >/dev/null 2>&1 & :")
    try:
        options: dict[str, t.Any] = {"quiesce": "true", "freeze_timeout": 2 * _HOOK_SECONDS}
        with cloud.modules_in_files():
            answer, result = module(cloud, here, "virt_backup", name=[WEB], dest=PLACE, **options)
        must(answer.status != 0, f"libvirtd was not restarted before it was frozen: {answer.text}")
        _goes_on(cloud, here)
        must(_froze(cloud) == before + 1, f"libvirtd was restarted before the agent was asked: {answer.text}")
        msg = result.get("msg", "")
        must("could not freeze the file systems" in msg and "does not thaw" not in msg, msg)
    finally:
        # If it is frozen after all, nobody gets in.
        cloud.lab("ssh", here, f"virsh domfsthaw {WEB}")
        inside(cloud, WEB, f"rm {_HOOK} {_CONF}; systemctl restart qemu-guest-agent")
    answer, result = module(cloud, here, "virt_backup", name=[WEB], dest=PLACE, quiesce="true", verify=True)
    must(answer.status == 0 and result["machines"][0]["quiesced"] is True, answer.text)


def _host_key(cloud: Cloud, where: str, seconds: int = 60) -> str:
    """The SSH host key that answers there."""
    scan = f"ssh-keyscan -T 5 -t ed25519 {where} 2>/dev/null | grep -o 'ssh-ed25519 .*'"
    answer = cloud.run("bash", "-c", f"for i in $(seq {seconds // 2}); do {scan} && exit; sleep 2; done; exit 1")
    must(answer.status == 0, f"nobody answers at {where} within {seconds} s")
    return answer.text.strip()


def _elsewhere(cloud: Cloud) -> None:
    here = home(cloud, WEB)
    (there,) = set(FLEET) - {here}
    key = _host_key(cloud, address(cloud, here, WEB))
    identity = inside(cloud, WEB, "cat /etc/machine-id")
    hand_over(cloud, here, there, PLACE)
    cloud.play_well("purge", "-e", f"vm={WEB}", "-e", "force=true")
    words: t.Sequence[str] = ("-e", f"vm={WEB}", "-e", f"src={PLACE}", "-e", f"on={there}", "-e", "started=true")
    cloud.play_well("restore", *words, live=False)
    must(home(cloud, WEB) == there, "it is somewhere else")
    must(_host_key(cloud, address(cloud, there, WEB), _UP_SECONDS) == key, "it has another host key")
    must(inside(cloud, WEB, "cat /etc/machine-id; systemctl --failed --no-legend") == identity, "it is another machine")


def _snapshot(cloud: Cloud) -> None:
    answer, _result = migrate(cloud, home(cloud, WEB), name=WEB, target=NEWER)
    must(answer.status == 0, answer.text)
    for name, quiesce in (("frozen", True), ("loose", False)):
        before = _froze(cloud)
        # It becomes what the next file is built on.
        image = cloud.on(NEWER, f"virsh domblklist {WEB} | awk '$1 == \"vda\" {{print $2}}'").strip()
        options: dict[str, t.Any] = {"name": name, "memory": False, "quiesce": quiesce}
        answer, result = module(cloud, NEWER, "virt_snapshot", vm=WEB, **options)
        must(answer.status == 0, answer.text)
        taken = result["machines"][0]
        must((taken["kind"], taken["quiesced"]) == ("external", quiesce), str(taken))
        must(_froze(cloud) == before + quiesce, f"the agent froze them {_froze(cloud) - before} times")
        must(_is_clean(cloud, NEWER, image) is quiesce, f"{name}: it is not so")
        _goes_on(cloud, NEWER)
    answer, _result = module(cloud, NEWER, "virt_snapshot", vm=WEB, name=["loose", "frozen"], state="absent")
    must(answer.status == 0, answer.text)
    _goes_on(cloud, NEWER)
