# SPDX-License-Identifier: GPL-3.0-or-later
"""iSCSI: a target that asks for a password, its LUN as the disk of a machine, and nothing is lost with the pool."""

from __future__ import annotations

import re
import typing as t

from ...cloud import Cloud, must
from ...driving.consoles import tell, wait_until_up
from ...driving.tasks import have, module, refused
from ...needs import TINY, store_tiny
from ...own_kernel import HOST
from ...runner import ScenarioRun

NEEDS = ("own_kernel",)
TARGET, FILE = "iqn.2026-01.org.example:scenario", "/srv/scenario-lun.raw"
USER, PASSWORD, SECRET = "scenario", "canary-password", {"name": TARGET, "usage": "iscsi"}
POOL, MACHINE, WORDS = "san", "iscsi1", "what-must-not-be-lost"
OPTIONS: dict[str, t.Any] = {"name": POOL, "type": "iscsi", "target": TARGET, "user": USER, "secret": TARGET}
LUN, LUN_MIB = "unit:0:0:1", 64
SPEC: dict[str, t.Any] = {
    **{**TINY, "name": MACHINE, "seed": {"method": "none"}},
    "disks": [*TINY["disks"], {"name": "data", "pool": POOL, "source": LUN}],
}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("a target with one LUN, for who knows the password", lambda: _target(cloud), vital=True)
        scenario.step("without a secret, or with a wrong one, there is no pool", lambda: _stranger(cloud))
        scenario.step("the pool logs in, and has the LUN as a volume", lambda: _pool(cloud), vital=True)
        scenario.step("a volume cannot be made there", lambda: _no_volume(cloud))
        scenario.step("a machine has the LUN as its disk", lambda: _machine(cloud), vital=True)
        scenario.step("the pool stays while the machine has it", lambda: _kept(cloud))
        scenario.step("the LUN outlives the machine", lambda: _purge(cloud))
        scenario.step("the pool goes and logs out, and comes back with what was in it", lambda: _gone(cloud))
    finally:
        _clear(cloud)


def _pool_options(cloud: Cloud) -> dict[str, t.Any]:
    text = (cloud.inventory / "hosts.yml").read_text(encoding="utf-8")
    found = re.search(rf"^    {HOST}:\n      ansible_host: (\S+)", text, re.MULTILINE)
    must(found is not None, f"{HOST} is not in the inventory")
    # Not by the loopback: as any other host would reach it.
    return OPTIONS | {"host": found.group(1) if found else ""}


def _target(cloud: Cloud) -> None:
    admin = "tgtadm --lld iscsi"
    cloud.on(
        HOST,
        f"systemctl start tgt && truncate --size={LUN_MIB}M {FILE}"
        f" && echo {WORDS} | dd of={FILE} conv=notrunc status=none"
        f" && {admin} --mode target --op new --tid 1 --targetname {TARGET}"
        f" && {admin} --mode logicalunit --op new --tid 1 --lun 1 --backing-store {FILE}"
        f" && {admin} --mode account --op new --user {USER} --password {PASSWORD}"
        f" && {admin} --mode account --op bind --tid 1 --user {USER}"
        f" && {admin} --mode target --op bind --tid 1 --initiator-address ALL",
    )


def _sessions(cloud: Cloud) -> str:
    return cloud.on(HOST, "iscsiadm --mode session 2>&1 || true")


def _stranger(cloud: Cloud) -> None:
    options = _pool_options(cloud)
    answer, result = module(cloud, HOST, "virt_pool", **options)
    must(answer.status != 0 and "libvirt has no secret for iscsi of that name" in result["msg"], answer.text)
    have(cloud, HOST, "virt_secret", **SECRET, value="not-the-password")
    answer, result = module(cloud, HOST, "virt_pool", **options)
    must(answer.status != 0, answer.text)
    must(POOL not in cloud.on(HOST, "virsh pool-list --all --name").split(), "the pool is there")
    must(TARGET not in _sessions(cloud), "there is a session")
    answer, _result = module(cloud, HOST, "virt_secret", **SECRET, value=PASSWORD, update_value="always")
    must(answer.status == 0, answer.text)


def _pool(cloud: Cloud) -> None:
    have(cloud, HOST, "virt_pool", **_pool_options(cloud))
    text = cloud.on(HOST, f"LC_ALL=C virsh pool-info {POOL}; virsh vol-list {POOL}")
    must("running" in text and "Autostart:      yes" in text and LUN in text, text)
    must(TARGET in _sessions(cloud), _sessions(cloud))


def _no_volume(cloud: Cloud) -> None:
    refused(cloud, HOST, "virt_volume", POOL, name="other", pool=POOL, size=16)


def _machine(cloud: Cloud) -> None:
    """Another hypervisor may have it, and this one answers there as it would if it had been asked."""
    store_tiny(cloud, HOST)
    answer, result = cloud.init(HOST, **SPEC)
    must(answer.status != 0 and "Ask them with virt_usage_info" in result["msg"], answer.text)
    shared = result["shared"]
    must([volume["volume"] for volume in shared] == [LUN] and bool(shared[0]["serial"]), answer.text)
    for options in ({**SPEC, "used_elsewhere": {"other": _users(cloud, shared)}}, SPEC):
        answer, result = cloud.init(HOST, **options)
        must(answer.status == 0 and result["changed"] is ("used_elsewhere" in options), answer.text)
    for by in ("serial", "place"):
        # By the one that is left, under a name that is not its own.
        asked = [{**shared[0], "volume": "another", **({"serial": None} if by == "place" else {"place": "/dev/none"})}]
        users = _users(cloud, asked)["volumes"][0]
        must(users["users"] == [f"machine {MACHINE}"] and users["unknown"] == [], f"by its {by}: {users}")
    wait_until_up(cloud, HOST, MACHINE)
    status, said = tell(cloud, HOST, MACHINE, "cat /sys/block/vdb/size; head -n 1 /dev/vdb")
    must(status == 0 and said.split() == [str(LUN_MIB * 2048), WORDS], said)
    status, said = tell(cloud, HOST, MACHINE, f"echo {WORDS}-at-all > /dev/vdb; sync")
    must(status == 0, said)


def _users(cloud: Cloud, asked: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    """What this hypervisor answers to another one."""
    answer, result = module(cloud, HOST, "virt_usage_info", volumes=asked)
    must(answer.status == 0, answer.text)
    return result


def _kept(cloud: Cloud) -> None:
    refused(cloud, HOST, "virt_pool", f"is kept: it is used by machine {MACHINE}", name=POOL, state="absent")
    refused(cloud, HOST, "virt_pool", MACHINE, name=POOL, state="inactive")
    refused(cloud, HOST, "virt_secret", f"is kept: it is used by storage pool {POOL}", **SECRET, state="absent")
    must(TARGET in _sessions(cloud), _sessions(cloud))


def _has_words(cloud: Cloud) -> None:
    must(cloud.on(HOST, f"head -n 1 {FILE} | tr -d '\\0'").strip() == f"{WORDS}-at-all", "its content has gone")


def _purge(cloud: Cloud) -> None:
    cloud.play_well("purge", "-e", f"vm={MACHINE}", "-e", "force=true")
    _has_words(cloud)
    must(LUN in cloud.on(HOST, f"virsh vol-list {POOL}"), "the volume has gone")


def _gone(cloud: Cloud) -> None:
    have(cloud, HOST, "virt_pool", name=POOL, state="absent")
    must(TARGET not in _sessions(cloud), _sessions(cloud))
    have(cloud, HOST, "virt_pool", **_pool_options(cloud))
    path = cloud.on(HOST, f"virsh vol-path {LUN} {POOL}").strip()
    must(cloud.on(HOST, f"head -c {len(WORDS)} {path}") == WORDS, "its content has gone")
    have(cloud, HOST, "virt_pool", name=POOL, state="absent")
    have(cloud, HOST, "virt_secret", **SECRET, state="absent")
    _has_words(cloud)


def _clear(cloud: Cloud) -> None:
    cloud.lab(
        "ssh",
        HOST,
        f"virsh destroy {MACHINE}; virsh undefine {MACHINE} --nvram; virsh pool-destroy {POOL};"
        f" virsh pool-undefine {POOL}; for secret in $(virsh secret-list | awk '/{TARGET}/ {{print $1}}'); do"
        f" virsh secret-undefine $secret; done; iscsiadm --mode node --logout; iscsiadm --mode node --op delete;"
        f" tgtadm --lld iscsi --mode target --op delete --force --tid 1; systemctl stop tgt; rm -f {FILE}",
    )
