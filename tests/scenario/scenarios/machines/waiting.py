# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of machines that do not come up.

One has no address, one panics, crashes and is undefined, one has another's address, and one a cloud-init that fails.
"""

from __future__ import annotations

import json
import re
import typing as t

from ...cloud import Answer, Cloud, must
from ...needs import TINY
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
ALONE, BROKEN = "wait1", "wait2"
# A bridge of the hypervisor on which nobody serves DHCP.
BRIDGE = "waitbr0"
LOG = "/var/log/libvirt/qemu"
UP = "tiny guest is up"
_UP_SECONDS = 180
# Both guests have come to the end of their boot by then: the first one is up in ten seconds, the other is waited for.
_ALONE_SECONDS, _DEBIAN_SECONDS = 45, 15


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step("provision of a machine without DHCP ends with a block about it", lambda: _no_address(cloud))
    scenario.step("a kernel panic ends the wait", lambda: _panic(cloud))
    scenario.step("a crash ends the wait, with libvirt's reason and QEMU's log", lambda: _crash(cloud))
    scenario.step("a machine that is undefined meanwhile is said so", lambda: _undefined(cloud))
    scenario.step("another machine at its address is not taken for it", lambda: _another(cloud))
    scenario.step("cloud-init's error is in the block", lambda: _cloud_init(cloud))
    scenario.step("the bridge goes", lambda: _bridge_goes(cloud))


def _wait(cloud: Cloud, name: str, seconds: int) -> tuple[Answer, dict[str, t.Any]]:
    """The module on hv1, which has to fail: what was said, and its result."""
    answer = cloud.ansible("hv1", "brine.virt.virt_wait", json.dumps({"names": [name], "timeout": seconds}))
    must(answer.status != 0, answer.text)
    start = answer.text.find("=> {")
    must(start >= 0, answer.text)
    return answer, json.JSONDecoder().raw_decode(answer.text[start + 3 :])[0]


def _stages(result: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    (machine,) = result["machines"]
    return {stage["stage"]: stage for stage in machine["stages"]}


def _must_match(pattern: str, text: str) -> None:
    must(re.search(pattern, text, re.MULTILINE) is not None, f"{pattern} is not in: {text}")


def _no_address(cloud: Cloud) -> None:
    cloud.on("hv1", f"ip link show {BRIDGE} >/dev/null 2>&1 || ip link add {BRIDGE} up type bridge")
    path = cloud.build / "scenario-waiting.yml"
    machine = {**TINY, "name": ALONE, "hypervisor": "hv1", "nics": {"eth0": {"bridge": BRIDGE}}}
    path.write_text(
        json.dumps({"virt_vms": [{**machine, "seed": {"method": "none"}}], "virt_provision_timeout": _ALONE_SECONDS}),
        encoding="utf-8",
    )
    answer = cloud.play("provision", "-e", f"@{path}")
    must(answer.status != 0, answer.text)
    headline = f"{ALONE} was not reachable within {_ALONE_SECONDS} s (failed at: address): no address was found for it"
    must(f"\nOn hv1:\n{headline}" in answer.text, answer.text)
    # In the block, and once more at the end.
    must(answer.one_line.count(headline) > 1, answer.text)
    must(f"virsh console {ALONE}" in answer.text, answer.text)
    for pattern in (
        r"^  defined     ok      yes$",
        r"^  running     ok      yes$",
        rf"^  lease       -       not known: libvirt has no DHCP server on {BRIDGE}$",
        r"^  address     FAILED  none known for 52:54:00:",
        r"^  SSH         -       not tried$",
        rf"^  The end of its serial console, as the guest wrote it, {LOG}/{ALONE}-serial.log:$",
        rf"^    \| .*{UP}",
    ):
        _must_match(pattern, answer.text)


def _broken(cloud: Cloud) -> None:
    """A small machine without a nic that is up."""
    answer, _result = cloud.init("hv1", **TINY, name=BROKEN, nic_profile=None, seed={"method": "none"})
    must(answer.status == 0, answer.text)
    up = f"grep -q '{UP}' {LOG}/{BROKEN}-serial.log"
    cloud.on("hv1", f"for i in $(seq {_UP_SECONDS}); do {up} && exit; sleep 1; done; exit 1")


def _panic(cloud: Cloud) -> None:
    _broken(cloud)
    # There is a shell on its serial console. QEMU reads from the terminal while somebody has it open.
    cloud.on(
        "hv1",
        f"terminal=$(virsh ttyconsole {BROKEN}); for i in $(seq 20); do"
        " (printf '\\necho c > /proc/sysrq-trigger\\n'; sleep 3) > $terminal;"
        f" grep -q 'Kernel panic - not syncing' {LOG}/{BROKEN}-serial.log && exit; done; exit 1",
    )
    answer, result = _wait(cloud, BROKEN, 300)
    words = f"{BROKEN} is not reachable (failed at: boot): its serial console shows a kernel panic; "
    must(result["msg"].startswith(words), answer.text)
    must(result["machines"][0]["waited_seconds"] < 60, answer.text)
    # It restarts after a second, and is quiet again.
    must(result["machines"][0]["serial_log_end"] != [], answer.text)
    must("\x1b" not in answer.text and f"less {LOG}/{BROKEN}-serial.log" in result["msg"], answer.text)


def _crash(cloud: Cloud) -> None:
    cloud.on("hv1", f"kill -SEGV $(cat /run/libvirt/qemu/{BROKEN}.pid)")
    cloud.on(
        "hv1", f"for i in $(seq 30); do virsh domstate {BROKEN} | grep -q 'shut off' && exit; sleep 1; done; exit 1"
    )
    answer, result = _wait(cloud, BROKEN, 300)
    words = f"{BROKEN} is not reachable (failed at: running): it is shutoff (it crashed). To start it: "
    must(result["msg"].startswith(words), answer.text)
    must(result["machines"][0]["waited_seconds"] < 10, answer.text)
    must(any("reason=crashed" in line for line in result["machines"][0]["qemu_log_end"]), answer.text)


def _undefined(cloud: Cloud) -> None:
    cloud.on("hv1", f"virsh start {BROKEN} && virsh undefine {BROKEN}")
    cloud.on("hv1", f"setsid sh -c 'sleep 20; virsh destroy {BROKEN}' >/dev/null 2>&1 </dev/null &")
    answer, result = _wait(cloud, BROKEN, 300)
    words = f"{BROKEN} is not reachable (failed at: defined): it is no longer defined on this hypervisor. "
    must(result["msg"].startswith(words), answer.text)
    must(result["machines"][0]["waited_seconds"] < 60, answer.text)


def _another(cloud: Cloud) -> None:
    """The small guest leaves its seed unread: at the address that it is to have, the second hypervisor answers."""
    address = str(cloud.listed()["_meta"]["hostvars"]["hv2"]["ansible_host"])
    nic = {"name": "eth0", "bridge": "br0", "addresses": [f"{address}/24"]}
    answer, _result = cloud.init("hv1", **TINY, name="wait4", nics=[nic])
    must(answer.status == 0, answer.text)
    answer, result = _wait(cloud, "wait4", 300)
    words = (
        f"wait4 is not reachable (failed at: SSH): SSH answers at {address} port 22, but not with a host key of this"
    )
    must(result["msg"].startswith(words) and f"ip neigh show {address}" in result["msg"], answer.text)
    must(result["machines"][0]["waited_seconds"] < 90, answer.text)


def _cloud_init(cloud: Cloud) -> None:
    """A Debian in which a command fails at boot, and takes SSH with it."""
    image = json.dumps({"name": "debian", "src": cloud.images["debian"]})
    answer = cloud.ansible("hv1", "brine.virt.virt_image", image)
    must(answer.status == 0, answer.text)
    commands = ["systemctl --no-block mask --now ssh.service ssh.socket", "false"]
    options: dict[str, t.Any] = {
        "image": "debian",
        "vcpus": 1,
        "memory": 512,
        "disks": [{"name": "system", "size": "3GiB"}],
    }
    answer, _result = cloud.init("hv1", **options, name="wait3", seed={"user_data": {"bootcmd": commands}})
    must(answer.status == 0, answer.text)
    over = f"grep -q 'Cloud-init v. .* finished at' {LOG}/wait3-serial.log"
    cloud.on("hv1", f"for i in $(seq {_UP_SECONDS}); do {over} && break; sleep 1; done")
    answer, result = _wait(cloud, "wait3", _DEBIAN_SECONDS)
    words = f"wait3 was not reachable within {_DEBIAN_SECONDS} s (failed at: SSH): it has the address "
    must(result["msg"].startswith(words), answer.text)
    _must_match(r"; cloud-init reports: .*bootcmd", result["msg"])
    stages = _stages(result)
    must(stages["running"]["ok"] and stages["address"]["ok"] and stages["boot"]["ok"], answer.text)
    must(stages["cloud-init"]["ok"] is False and "bootcmd" in stages["cloud-init"]["seen"], answer.text)
    must(bool(result["machines"][0]["serial_log_end"]), answer.text)
    # Where the serial console says nothing of it, the guest agent is asked.
    cloud.on("hv1", f": > {LOG}/wait3-serial.log")
    answer, result = _wait(cloud, "wait3", 5)
    asked = _stages(result)["cloud-init"]
    must(asked["ok"] is False and "bootcmd" in asked["seen"], answer.text)


def _bridge_goes(cloud: Cloud) -> None:
    cloud.on("hv1", f"virsh destroy {ALONE}; ip link delete {BRIDGE}")
