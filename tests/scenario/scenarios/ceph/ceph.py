# SPDX-License-Identifier: GPL-3.0-or-later
"""Ceph: machines as clones of one image in a pool that all hypervisors share, which move without a copy, and outlive
their hypervisor's power."""

from __future__ import annotations

import json
import re
import time
import typing as t

from ...cloud import FLEET, Answer, Cloud, must
from ...driving import ceph
from ...driving.consoles import clear, tell, type_line, wait_until_up
from ...driving.tasks import module, refused
from ...moving import home, migrate
from ...needs import TINY
from ...runner import ScenarioRun
from ...trouble import slow
from ..fleet.evacuating import provision

NEEDS = ("hypervisors", "alone", "tiny")
HERE, THERE = FLEET
TEN = [f"ceph{number}" for number in range(10)]
# What they are compared with: as many whose disks are overlays of the hypervisors' own image; one on each brings that.
LOCAL, FIRST = [f"local{number}" for number in range(10)], [f"first{number}" for number in range(2)]
RUNS, COMES = "ceph-runs", "ceph-comes"
BLOB = "ceph-was-here"
PLACE = "/srv/scenario-ceph"
STRANGER = "of-somebody-else"
# What it counts to on its disk, each number on the disk before the next one is written.
COUNT = (
    "i=0; while :; do i=$((i+1)); echo $i | dd of=/dev/vdb conv=fsync bs=512 2>/dev/null && echo AT $i; sleep 1; done"
)


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    reached = ceph.start(cloud)
    try:
        scenario.step("the role makes its pool on both", lambda: _pool(cloud, reached), vital=True)
        scenario.step("libvirt starts again, and the pool is there", lambda: _restart(cloud))
        scenario.step("a run that was killed while it brought an image is in nobody's way", lambda: _killed(cloud))
        scenario.step("ten machines on both: one image in the pool, and ten clones", lambda: _ten(cloud), vital=True)
        scenario.step("how long ten take beside ten overlays on local disks", lambda: _beside_local(cloud))
        scenario.step("both at once bring the image once", lambda: _both(cloud))
        scenario.step("a machine runs from it", lambda: _runs(cloud), vital=True)
        scenario.step("it moves while it runs, and nothing is copied", lambda: _move(cloud, THERE))
        scenario.step("its disk grows while it runs", lambda: _grow(cloud))
        scenario.step(
            "a disk moves into the pool while its machine runs; out of it, not unasked", lambda: _between_pools(cloud)
        )
        scenario.step("off, it moves as well", lambda: _off(cloud))
        scenario.step("what is used is not deleted, from whatever hypervisor", lambda: _kept(cloud))
        scenario.step("a backup of it is whole, and is put back", lambda: _back_up(cloud))
        scenario.step("off, a backup has all of it, and it comes back with its seed", lambda: _bring_back(cloud))
        scenario.step("a hypervisor is emptied, without a copy", lambda: _evacuate(cloud))
        scenario.step("power goes while it writes: all is there that was on the disk", lambda: _power(cloud))
        scenario.step("purge removes the machines and their volumes, and nothing else", lambda: _purge(cloud))
        scenario.step("then the image goes, by name or as unused", lambda: _prune(cloud))
    finally:
        names = " ".join((RUNS, COMES, *TEN, *LOCAL, *FIRST))
        for host in FLEET:
            cloud.lab(
                "ssh",
                host,
                f"rm -rf {PLACE}; for m in {names}; do virsh destroy $m; virsh undefine $m; done",
            )
        ceph.clear(cloud)


def _image(cloud: Cloud) -> list[str]:
    return [name for name in ceph.listed(cloud) if name.startswith("tiny-") and "@" not in name]


def _pool(cloud: Cloud, reached: dict[str, str]) -> None:
    ceph.role(cloud, reached, changes=True)
    ceph.role(cloud, reached, changes=False)
    for host in FLEET:
        text = cloud.on(host, f"LC_ALL=C virsh pool-info {ceph.POOL}")
        must("running" in text and "Autostart:      yes" in text, text)
        key = cloud.lab(
            "ssh", host, f"grep -r {reached['key']} /etc/ceph /root /tmp /etc/libvirt/qemu /etc/libvirt/storage"
        )
        must(reached["key"] not in key.text.replace(f"grep -r {reached['key']}", ""), key.text)
    cloud.lab_well("ceph", "rbd", "create", "--size", "8", f"vms/{STRANGER}")


def _restart(cloud: Cloud) -> None:
    # libvirt itself starts such a pool when the host boots, and takes it for stopped after any other start.
    cloud.on(HERE, "systemctl restart libvirtd")
    answer, result = module(cloud, HERE, "virt_host_info", gather_subset=["pools"])
    must(answer.status == 0, answer.text)
    must(all(pool["active"] for pool in result["host"]["pools"]), f"{result['host']['pools']}")


def _disks(*more: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    return [{"name": "system", "size": 256, "pool": ceph.POOL}, *more]


def _killed(cloud: Cloud) -> None:
    """What a killed run leaves is half of an image, which nobody has open any more after a while."""
    answer, _result = cloud.init(HERE, check=True, **{**TINY, "name": "ceph-check", "disks": _disks()})
    must(answer.status == 0 and not _image(cloud), f"check mode brought an image: {answer.text}")
    volume = re.search(r"tiny-[0-9a-f]{16}\.raw", answer.text)
    must(volume is not None, answer.text)
    part = f"{volume[0] if volume else ''}.part"
    cloud.lab_well("ceph", "rbd", "create", "--size", "32", f"vms/{part}")
    answer, _result = cloud.init(HERE, **{**TINY, "name": "ceph-check", "disks": _disks(), "start": False})
    must(answer.status == 0, answer.text)
    must(part not in ceph.listed(cloud) and len(_image(cloud)) == 1, f"{list(ceph.listed(cloud))}")
    cloud.play_well("purge", "-e", "vm=ceph-check")


def _ten(cloud: Cloud) -> None:
    machines = [{"name": name, "disks": _disks(), "hypervisor": FLEET[number % 2]} for number, name in enumerate(TEN)]
    for changes in (True, False):
        answer = provision(cloud, *machines)
        must(answer.status == 0 and (answer.recap("changed") > 0) is changes, answer.text)
    listed, image = ceph.listed(cloud), _image(cloud)
    must(len(image) == 1, f"images: {image}")
    for name in TEN:
        must(listed[f"{name}-system"].get("parent", {}).get("image") == image[0], f"{listed[f'{name}-system']}")


def _beside_local(cloud: Cloud) -> None:
    """The images are there for both. The figures are shown, and not judged."""
    disks = {name: _disks() for name in TEN}
    disks.update((name, [{**_disks()[0], "pool": "default"}]) for name in (*LOCAL, *FIRST))
    spread = {
        name: {"name": name, "disks": disks[name], "hypervisor": FLEET[number % 2]}
        for names in (TEN, LOCAL, FIRST)
        for number, name in enumerate(names)
    }
    answer = provision(cloud, *(spread[name] for name in FIRST))
    must(answer.status == 0, answer.text)
    cloud.play_well("purge", "-e", json.dumps({"vm": TEN}))
    seconds = []
    for names in (LOCAL, TEN):
        began = time.monotonic()
        answer = provision(cloud, *(spread[name] for name in names))
        seconds.append(time.monotonic() - began)
        must(answer.status == 0, answer.text)
    print(f"      ten overlays on local disks {seconds[0]:.1f} s, ten clones in Ceph {seconds[1]:.1f} s", flush=True)
    cloud.play_well("purge", "-e", json.dumps({"vm": [*LOCAL, *FIRST]}))


def _both(cloud: Cloud) -> None:
    """Not only one after the other."""
    cloud.play_well("purge", "-e", json.dumps({"vm": TEN}))
    _remove_image(cloud)
    _ten_at_once = [
        {"name": name, "disks": _disks(), "hypervisor": FLEET[number % 2]} for number, name in enumerate(TEN[:4])
    ]
    answer = provision(cloud, *_ten_at_once)
    must(answer.status == 0 and len(_image(cloud)) == 1, f"{_image(cloud)}: {answer.text}")
    must(not any(name.endswith(".part") for name in ceph.listed(cloud)), f"{list(ceph.listed(cloud))}")


def _remove_image(cloud: Cloud) -> None:
    answer, result = module(cloud, HERE, "virt_image", name="tiny", pool=ceph.POOL, state="absent", used_elsewhere=[])
    must(answer.status == 0 and result["changed"] and not _image(cloud), f"{_image(cloud)}: {answer.text}")


def _runs(cloud: Cloud) -> None:
    disks = _disks({"name": "data", "size": 64, "pool": ceph.POOL})
    spec = {**TINY, "name": RUNS, "disks": disks, "seed": {"pool": ceph.POOL}}
    for changes in (True, False):
        answer, result = cloud.init(HERE, **spec)
        must(answer.status == 0 and result["changed"] is changes, answer.text)
    wait_until_up(cloud, HERE, RUNS)
    status, said = tell(cloud, HERE, RUNS, f"echo {BLOB} > /run/blob; echo {BLOB} > /dev/vdb; sync")
    must(status == 0, said)


def _says(cloud: Cloud, *, booted: bool = False) -> None:
    """The same guest as before: what is in its memory and on its disk."""
    files = "/dev/vdb" if booted else "/run/blob /dev/vdb"
    status, said = tell(cloud, home(cloud, RUNS), RUNS, f"for f in {files}; do head -n 1 $f; done")
    must(status == 0 and set(said.split()) == {BLOB}, said)


def _move(cloud: Cloud, target: str) -> None:
    names = (f"{RUNS}-system", f"{RUNS}-data")
    before, traffic = ceph.identities(cloud, *names), ceph.traffic_bytes(cloud)
    answer, result = migrate(cloud, home(cloud, RUNS), name=RUNS, target=target)
    must(answer.status == 0 and home(cloud, RUNS) == target, answer.text)
    must(ceph.identities(cloud, *names) == before, "other volumes than before")
    read, written = (now - then for now, then in zip(ceph.traffic_bytes(cloud), traffic, strict=True))
    print(f"      {read} bytes were read from the pool meanwhile, {written} written", flush=True)
    # What the guest and QEMU do of themselves; the smaller one of its disks has 64 MiB.
    must(read + written < 4 << 20, f"{read} bytes read, {written} written")
    done = result["machines"][0]
    must({disk["method"] for disk in done["disks"]} == {"shared"}, f"{done['disks']}")
    print(f"      {done['duration_ms']} ms, paused for {done['downtime_ms']} ms", flush=True)
    _says(cloud)


def _init_grown(cloud: Cloud, *, changes: bool) -> None:
    disks = _disks({"name": "data", "size": 96, "pool": ceph.POOL})
    answer, result = cloud.init(
        home(cloud, RUNS), name=RUNS, disks=disks, vcpus=1, memory=128, image="tiny", seed={"pool": ceph.POOL}
    )
    must(answer.status == 0 and result["changed"] is changes, answer.text)


def _grow(cloud: Cloud) -> None:
    for changes in (True, False):
        _init_grown(cloud, changes=changes)
    must(ceph.listed(cloud)[f"{RUNS}-data"]["size"] == 96 << 20, f"{ceph.listed(cloud)[f'{RUNS}-data']}")
    status, said = tell(cloud, home(cloud, RUNS), RUNS, "cat /sys/block/vdb/size")
    must(status == 0 and said.split()[0] == str(96 * 2048), said)
    _says(cloud)


def _between_pools(cloud: Cloud) -> None:
    host = home(cloud, RUNS)
    words = "cannot be seen from this one. .* source_volumes: none"
    answer, result = migrate(cloud, host, name=RUNS, disks={"data": {"pool": "default"}})
    must(answer.status != 0 and re.search(words, result["msg"]) is not None, answer.text)
    disk = {"name": "system", "size": 64, "pool": "default", "format": "raw"}
    answer, _result = cloud.init(host, **{**TINY, "name": COMES, "disks": [disk], "seed": False})
    must(answer.status == 0, answer.text)
    wait_until_up(cloud, host, COMES)
    answer, _result = migrate(cloud, host, name=COMES, pool=ceph.POOL)
    must(answer.status == 0, answer.text)
    must(f"{COMES}-system" in "".join(ceph.listed(cloud)), f"{list(ceph.listed(cloud))}")
    must(COMES not in cloud.on(host, "ls /var/lib/libvirt/images"), "its old volume is there")
    status, said = tell(cloud, host, COMES, "cat /dev/vda > /dev/null && echo fine")
    must(status == 0 and "fine" in said, said)
    cloud.play_well("purge", "-e", f"vm={COMES}", "-e", "force=true")
    must(COMES not in "".join(ceph.listed(cloud)), f"{list(ceph.listed(cloud))}")


def _off(cloud: Cloud) -> None:
    host = home(cloud, RUNS)
    other = HERE if host == THERE else THERE
    cloud.on(host, f"virsh destroy {RUNS}")
    before = ceph.identities(cloud, f"{RUNS}-system", f"{RUNS}-data")
    cloud.play_well("migrate", "-e", f"vm={RUNS}", "-e", f"to={other}")
    must(home(cloud, RUNS) == other, f"it is on {home(cloud, RUNS)}")
    must(ceph.identities(cloud, *before) == before, "other volumes than before")
    clear(cloud, other, RUNS)
    cloud.on(other, f"virsh start {RUNS}")
    wait_until_up(cloud, other, RUNS)
    _says(cloud, booted=True)


def _kept(cloud: Cloud) -> None:
    host = home(cloud, RUNS)
    other = HERE if host == THERE else THERE
    before = ceph.listed(cloud)
    image = _image(cloud)[0]
    refused(cloud, other, "virt_image", "is used by", name="tiny", pool=ceph.POOL, state="absent", used_elsewhere=[])
    refused(
        cloud, other, "virt_volume", "cannot be seen from this one", name=f"{RUNS}-data", pool=ceph.POOL, state="absent"
    )
    refused(cloud, other, "virt_volume", "", name=image, pool=ceph.POOL, state="absent")
    refused(cloud, host, "virt_pool", f"is kept: it is used by machine {RUNS}", name=ceph.POOL, state="absent")
    answer, _result = cloud.init(other, **{**TINY, "name": RUNS, "disks": _disks()})
    must(answer.status != 0, f"a second machine of that name: {answer.text}")
    must(set(ceph.listed(cloud)) == set(before), f"{list(ceph.listed(cloud))}")
    _says(cloud, booted=True)


def _back_up(cloud: Cloud) -> None:
    host = home(cloud, RUNS)
    cloud.on(host, f"mkdir -p {PLACE}")
    answer, result = module(cloud, host, "virt_backup", name=[RUNS], dest=PLACE)
    must(answer.status == 0 and result["machines"][0]["kind"] == "full", answer.text)
    status, said = tell(cloud, host, RUNS, "echo other > /dev/vdb; sync")
    must(status == 0, said)
    answer, result = module(cloud, host, "virt_restore", src=PLACE, machine=RUNS, disk="data")
    must(answer.status == 0, answer.text)
    place = result["volumes"][0]
    name = place["path"].rpartition("/")[2]
    exported = cloud.build / "exported"
    exported.unlink(missing_ok=True)
    cloud.lab_well("ceph", "rbd", "export", "--no-progress", f"vms/{name}", str(exported))
    start = exported.read_bytes()[:64]
    exported.unlink()
    must(BLOB.encode() in start, f"{start!r}")
    cloud.lab_well("ceph", "rbd", "rm", f"vms/{name}")
    status, said = tell(cloud, host, RUNS, f"echo {BLOB} > /dev/vdb; sync")
    must(status == 0, said)


def _bring_back(cloud: Cloud) -> None:
    host = home(cloud, RUNS)
    volumes = {f"{RUNS}-{part}" for part in ("system", "data", "seed")}
    must(volumes <= set(ceph.listed(cloud)), f"{list(ceph.listed(cloud))}")
    # So much, and so slow a network, that who has the volumes open is asked while qemu-img has them.
    status, said = tell(cloud, host, RUNS, "dd if=/dev/urandom of=/dev/vdb bs=1M seek=1 count=60 conv=fsync")
    must(status == 0, said)
    cloud.on(host, f"virsh destroy {RUNS}")
    began = time.monotonic()
    with slow(cloud, host, 40):
        answer, result = module(cloud, host, "virt_backup", name=[RUNS], dest=PLACE, verify=True)
    must(answer.status == 0 and not result["machines"][0]["left_out"], answer.text)
    seconds = time.monotonic() - began
    must(seconds > 10, f"nobody had to wait for the copy: {seconds:.1f} s")
    cloud.play_well("purge", "-e", f"vm={RUNS}")
    must(not volumes & set(ceph.listed(cloud)), f"{list(ceph.listed(cloud))}")
    answer, result = module(cloud, host, "virt_restore", src=PLACE, machine=RUNS)
    must(answer.status == 0, answer.text)
    must(volumes <= set(ceph.listed(cloud)), f"{list(ceph.listed(cloud))}")
    must(f"{RUNS}-seed" in cloud.on(host, f"virsh dumpxml {RUNS}"), "its drive for the seed is gone")
    clear(cloud, host, RUNS)
    cloud.on(host, f"virsh start {RUNS}")
    wait_until_up(cloud, host, RUNS)
    _says(cloud, booted=True)
    _init_grown(cloud, changes=False)


def _evacuate(cloud: Cloud) -> None:
    host = home(cloud, RUNS)
    other = HERE if host == THERE else THERE
    before = ceph.identities(cloud, *(name for name in ceph.listed(cloud) if "@" not in name))
    answer = cloud.play_well("evacuate", "-e", f"from={host}")
    must(not cloud.on(host, "virsh list --all --name").split(), answer.text)
    must(ceph.identities(cloud, *before) == before and home(cloud, RUNS) == other, answer.text)
    _says(cloud, booted=True)
    cloud.play_well("maintenance", "-e", f"end={host}")


def _power(cloud: Cloud) -> None:
    host = home(cloud, RUNS)
    other = HERE if host == THERE else THERE
    type_line(cloud, host, RUNS, COUNT)
    time.sleep(5)
    log = cloud.on(host, f"cat /var/log/libvirt/qemu/{RUNS}-serial.log")
    counted = max(int(number) for number in re.findall(r"^AT (\d+)", log.replace("\r", ""), re.MULTILINE))
    cloud.lab_well("unplug", host)
    answer = provision(cloud, {"name": RUNS, "disks": _disks(), "start": True})
    must(answer.status != 0, answer.text)
    _is_not_on(cloud, other, answer)
    _nobody_starts_it(cloud, host, other)
    cloud.lab_well("up", "--hosts", str(len(cloud.lab_hosts())))
    clear(cloud, host, RUNS)
    cloud.on(host, f"for i in $(seq 60); do virsh version >/dev/null && break; sleep 1; done; virsh start {RUNS}")
    wait_until_up(cloud, host, RUNS)
    status, said = tell(cloud, host, RUNS, "head -n 1 /dev/vdb")
    must(status == 0 and int(said.split()[0]) >= counted, f"{said} of {counted}")
    print(f"      {counted} was seen, {said.split()[0]} is on the disk", flush=True)


def _nobody_starts_it(cloud: Cloud, host: str, other: str) -> None:
    """Whatever is run while its hypervisor is without power; the other one has its backup."""
    vm = ("-e", f"vm={RUNS}")
    restore = (*vm, "-e", f"src={PLACE}", "-e", f"on={other}", "-e", "pool=default", "-e", "started=true")
    for name, words, said in (
        ("power", (*vm, "-e", "state=running"), "Nothing was changed"),
        ("power", (*vm, "-e", f"on={other}", "-e", "state=running"), "Nothing was changed"),
        # Its volumes in the pool are not in the way of that.
        ("restore", restore, f"{host} may have {RUNS} already"),
        ("clone", (*vm, "-e", f"new_name={COMES}"), "Nothing was cloned"),
        # It starts what is off there.
        ("maintenance", ("-e", f"end={other}", "-e", "start=true"), None),
    ):
        answer = cloud.play(name, *words, live=False)
        must(said is None or (answer.status != 0 and said in answer.one_line), answer.text)
        _is_not_on(cloud, other, answer)


def _is_not_on(cloud: Cloud, host: str, answer: Answer) -> None:
    there = {RUNS, COMES} & set(cloud.on(host, "virsh list --all --name").split())
    must(not there, f"{there} made or started twice: {answer.text}")


def _purge(cloud: Cloud) -> None:
    cloud.play_well("purge", "-e", json.dumps({"vm": [RUNS, *TEN[:4]]}), "-e", "force=true")
    left = set(ceph.listed(cloud))
    must(left == {STRANGER, *_image(cloud), *(f"{name}@brine" for name in _image(cloud))}, f"{left}")


def _prune(cloud: Cloud) -> None:
    answer, result = module(cloud, THERE, "virt_image", pool=ceph.POOL, state="pruned", keep=0, used_elsewhere=[])
    must(answer.status == 0 and len(result["pruned"]) == 1, answer.text)
    must(set(ceph.listed(cloud)) == {STRANGER}, f"{list(ceph.listed(cloud))}")
