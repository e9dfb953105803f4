# SPDX-License-Identifier: GPL-3.0-or-later
"""A clone of a machine: with what is on its disks, and with an identity of its own, so that both run side by side."""

from __future__ import annotations

import json
import time

from ...cloud import Cloud, must
from ...needs import WEB
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "web1")
CLONE, TAKEN = "web2", "web3"
WORDS = ("-e", f"vm={WEB}", "-e", f"new_name={CLONE}")
BOOT_SECONDS = 300
# Where no file system keeps anything: the data disk is as it was made.
DATA = "dd if=/dev/disk/by-id/virtio-data bs=512 skip=4096 count=1 status=none | tr -d '\\0'"
TEXT = "written before the clone"
IDENTITY = {
    "id": "cat /etc/machine-id",
    "keys": "cut -d ' ' -f 1,2 /etc/ssh/ssh_host_*_key.pub",
    "name": "hostname",
    "address": "hostname -I",
    "macs": "cat /sys/class/net/e*/address",
}
# What the machine was before.
_before: dict[str, str] = {}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("the machine's hypervisor gets virt-sysprep, once", lambda: _sysprep(cloud), vital=True)
        scenario.step("the machine has files and a data disk with something in it", lambda: _write(cloud), vital=True)
        scenario.step("while it runs, it is not cloned", lambda: _refused(cloud, f"machine {WEB} on"))
        scenario.step("shut down, it would be cloned: check mode", lambda: _check(cloud), vital=True)
        scenario.step("a machine that gets the name meanwhile is left alone", lambda: _taken(cloud))
        scenario.step("it is cloned, and the clone answers", lambda: _clone(cloud), vital=True)
        scenario.step("the machine starts again as what it was", lambda: _started(cloud))
        scenario.step("its clone is another one, with the same data", lambda: _is_another(cloud))
        scenario.step("a second run is refused", lambda: _refused(cloud, f"there is a machine '{CLONE}' on"))
        scenario.step("the clone goes, and the machine stays", lambda: _purge(cloud))
    finally:
        cloud.play("power", "-e", f"vm={WEB}", "-e", "state=running")
        # The scenarios that follow take it for ready.
        _wait(cloud, WEB)


def _home(cloud: Cloud) -> str:
    return str(cloud.listed()["_meta"]["hostvars"][WEB]["virt_hypervisor"])


def _sysprep(cloud: Cloud) -> None:
    home = _home(cloud)
    cloud.play_well("hypervisors", "-e", "virt_hypervisor_guestfs=true", "--limit", home, live=False)
    cloud.on(home, "virt-sysprep --version")


def _guest(cloud: Cloud, name: str, command: str) -> str:
    """What a shell command in a machine says; it has to end well."""
    answer = cloud.ansible(name, "ansible.builtin.shell", json.dumps({"cmd": command}), "--become")
    must(answer.status == 0, answer.text)
    return answer.text.partition(">>\n")[2]


def _ask(cloud: Cloud, name: str) -> dict[str, str]:
    """What tells a machine from others, and what is on its disks."""
    commands = {**IDENTITY, "data": DATA, "file": "cat /etc/brine-clone"}
    script = "; ".join(f"echo; echo '== {key}'; {command}" for key, command in commands.items())
    parts = _guest(cloud, name, script).split("\n== ")[1:]
    return {key: text.strip() for key, _newline, text in (part.partition("\n") for part in parts)}


def _wait(cloud: Cloud, name: str) -> None:
    """Wait until it answers. Its address is in the inventory only when it has one, so that is read again each time."""
    end = time.monotonic() + BOOT_SECONDS
    while True:
        answer = cloud.ansible(name, "ansible.builtin.wait_for_connection", "timeout=20")
        if answer.status == 0 or time.monotonic() > end:
            break
    must(answer.status == 0, answer.text)


def _write(cloud: Cloud) -> None:
    _wait(cloud, WEB)
    write = "dd of=/dev/disk/by-id/virtio-data bs=512 seek=4096 conv=sync,notrunc,fsync"
    _guest(cloud, WEB, f"echo '{TEXT}' > /etc/brine-clone && echo '{TEXT}' | {write} && sync")
    _before.update(_ask(cloud, WEB))
    must((_before["data"], _before["file"], _before["name"]) == (TEXT, TEXT, WEB), str(_before))


def _refused(cloud: Cloud, sentence: str) -> None:
    before = cloud.state_of_all()
    answer = cloud.play("clone", *WORDS)
    must(answer.status != 0 and sentence in answer.text and "Nothing was cloned." in answer.text, answer.text)
    must(answer.recap("changed") == 0 and cloud.state_of_all() == before, f"something was done:\n{answer.text}")


def _check(cloud: Cloud) -> None:
    cloud.play_well("power", "-e", f"vm={WEB}", "-e", "state=stopped")
    before = cloud.state_of_all()
    answer = cloud.play_well("clone", *WORDS, "--check")
    must(f"{CLONE} goes to {_home(cloud)}" in answer.text and answer.recap("changed") >= 2, answer.text)
    must(cloud.state_of_all() == before, "check mode has changed something")


def _taken(cloud: Cloud) -> None:
    """Somebody defines a machine while the system disk is prepared. The images stay for the clone."""
    home = _home(cloud)
    xml = f"<domain type='qemu'><name>{TAKEN}</name><memory unit='MiB'>64</memory><os><type>hvm</type></os></domain>"
    cloud.on(home, f'echo "{xml}" > /var/tmp/taken.xml')
    define = "for i in $(seq 3000); do pgrep -x virt-sysprep && break; sleep 0.1; done; virsh define /var/tmp/taken.xml"
    cloud.on(home, f"({define}) >/dev/null 2>&1 & :")
    try:
        answer = cloud.play("clone", "-e", f"vm={WEB}", "-e", f"new_name={TAKEN}")
        must(answer.status != 0 and "another one has created a machine of this name" in answer.one_line, answer.text)
        left = cloud.on(home, f"virsh dumpxml {TAKEN}; virsh domstate {TAKEN}; ls /var/lib/libvirt/images")
        must("<memory unit='KiB'>65536<" in left and "shut off" in left and f"{TAKEN}-" not in left, left)
    finally:
        cloud.on(home, f"virsh undefine {TAKEN}; rm /var/tmp/taken.xml")


def _source(cloud: Cloud) -> str:
    """The machine and its disks, as they are on the hypervisor."""
    return cloud.on(
        _home(cloud), f"virsh domstate {WEB}; virsh dumpxml --inactive {WEB}; sha256sum /var/lib/libvirt/images/{WEB}-*"
    )


def _clone(cloud: Cloud) -> None:
    before = _source(cloud)
    answer = cloud.play_well("clone", *WORDS)
    # Its images are there since the run that lost its name.
    must(answer.recap("changed") >= 1 and "clone-of-web1-data" in answer.text, answer.text)
    must(_source(cloud) == before, f"{WEB} is not what it was")
    backing = cloud.on(_home(cloud), f"qemu-img info -U /var/lib/libvirt/images/{CLONE}-data.qcow2")
    must("/clone-of-web1-data-" in backing, backing)


def _started(cloud: Cloud) -> None:
    cloud.play_well("power", "-e", f"vm={WEB}", "-e", "state=running")
    _wait(cloud, WEB)
    now = _ask(cloud, WEB)
    must(now == _before, f"{now} is not {_before}")


def _is_another(cloud: Cloud) -> None:
    _wait(cloud, CLONE)
    now = _ask(cloud, CLONE)
    must((now["data"], now["file"], now["name"]) == (TEXT, TEXT, CLONE), f"the content is another one: {now}")
    for key in IDENTITY:
        must(now[key] != _before[key] and now[key] != "", f"{key} is that of {WEB}: {now[key]}")
    shared = set(now["keys"].splitlines()) & set(_before["keys"].splitlines())
    must(not shared, f"both have the host keys {shared}")
    hosts = cloud.listed()["_meta"]["hostvars"]
    must(hosts[CLONE]["virt_hypervisor"] == hosts[WEB]["virt_hypervisor"], "they are not on the same hypervisor")
    must("StrictHostKeyChecking=yes" in str(hosts[CLONE]), "host keys are not checked")


def _purge(cloud: Cloud) -> None:
    cloud.play_well("purge", "-e", f"vm={CLONE}", "-e", "force=true")
    names = cloud.on(_home(cloud), "virsh list --all --name").split()
    must(CLONE not in names and WEB in names, str(names))
    _wait(cloud, WEB)
