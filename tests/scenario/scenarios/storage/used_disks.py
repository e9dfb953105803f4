# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that are in use survive byte for byte when their machine's disks go to another pool, and when the machine is
replaced by its backup. The scenarios deletion and purge have the other deletions."""

from __future__ import annotations

import contextlib
import functools
import typing as t

from ...cloud import FLEET, Cloud, must
from ...driving.tasks import module, refused
from ...driving.users import CLONE, USERS, User, attached, cloned
from ...needs import TINY
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
HOST = FLEET[0]
OWNER, OTHER = "used1", "used2"
IMAGES = "/var/lib/libvirt/images"
POOL, POOL_PLACE = "scenario-used", "/srv/scenario-used"
BACKUPS = "/srv/scenario-used-backups"
REPLACE: dict[str, t.Any] = {"src": BACKUPS, "machine": OWNER, "replace": True}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("two machines, and a backup of one of them", lambda: _begin(cloud), vital=True)
        for words, user in USERS:
            scenario.step(
                f"its disks stay in their pool when {words} one", functools.partial(_move_refused, cloud, user)
            )
        scenario.step("it is not replaced when a running machine has one", lambda: _replace_refused(cloud))
        scenario.step("it is replaced, but for what somebody's clone is backed by", lambda: _replaced(cloud))
        scenario.step("its disks move, and the old ones stay if they are to", lambda: _moved(cloud))
    finally:
        _clear(cloud)


def _begin(cloud: Cloud) -> None:
    cloud.on(
        HOST,
        f"mkdir -p {BACKUPS} && mkdir -p -m 0711 {POOL_PLACE}"
        f" && virsh -q pool-define-as {POOL} dir --target {POOL_PLACE} && virsh -q pool-start {POOL}",
    )
    other: dict[str, t.Any] = {**TINY, "name": OTHER, "seed": {"method": "none"}}
    disks = [*TINY["disks"], {"name": "data", "size": 16}]
    for options in (other, {**other, "name": OWNER, "disks": disks, "start": False}):
        answer, _result = cloud.init(HOST, **options)
        must(answer.status == 0, answer.text)
    cloud.on(HOST, f"qemu-io -f qcow2 -c 'write -q -P 90 0 1M' {_data(cloud)}")
    answer, _result = module(cloud, HOST, "virt_backup", name=[OWNER], dest=BACKUPS)
    must(answer.status == 0, answer.text)


def _files(cloud: Cloud) -> dict[str, str]:
    """The files of the machine's disks, by target."""
    lines = cloud.on(HOST, f"virsh -q domblklist {OWNER} --inactive").splitlines()
    found = dict(line.split() for line in lines if line.strip())
    must(set(found) == {"vda", "vdb"}, f"its disks are {found}")
    return found


def _data(cloud: Cloud) -> str:
    return _files(cloud)["vdb"]


@contextlib.contextmanager
def _unharmed(cloud: Cloud, *paths: str) -> t.Iterator[None]:
    """These files are there after the block, as they were before."""
    before = cloud.on(HOST, f"sha256sum {' '.join(paths)}")
    yield
    must(cloud.on(HOST, f"sha256sum {' '.join(paths)}") == before, f"of these something has changed: {before}")


def _refused(cloud: Cloud, user: User, module_name: str, words: str, **options: t.Any) -> None:
    """With these words, before anything is changed. words: with a place for those of the user."""
    files = _files(cloud)
    with user(cloud, HOST, OTHER, files["vdb"]) as who, _unharmed(cloud, *files.values()):
        before = cloud.state(HOST)
        refused(cloud, HOST, module_name, words.format(who=who), **options)
        must(cloud.state(HOST) == before, "something has changed")


def _move_refused(cloud: Cloud, user: User) -> None:
    words = "could not be deleted here afterwards: it is used by {who}"
    _refused(cloud, user, "virt_migrate", words, name=OWNER, pool=POOL)


def _replace_refused(cloud: Cloud) -> None:
    words = f"{OWNER} is off as far as libvirt knows, but a disk of it is used by"
    _refused(cloud, attached, "virt_restore", words, **REPLACE)


def _replaced(cloud: Cloud) -> None:
    files = _files(cloud)
    kept = files["vdb"]
    with cloned(cloud, HOST, OTHER, kept) as who, _unharmed(cloud, kept, CLONE):
        for mode in (("--check",), ()):
            answer, result = module(cloud, HOST, "virt_restore", *mode, **REPLACE)
            must(answer.status == 0, answer.text)
            remarks = [words for words in result["remarks"] if kept.rpartition("/")[2] in words]
            must(len(remarks) == 1 and f"it is used by {who}" in remarks[0], str(result["remarks"]))
        must(not set(files.values()) & set(_files(cloud).values()), f"it still has one of {files}")
        cloud.on(HOST, f"! test -e {files['vda']}")


def _moved(cloud: Cloud) -> None:
    kept = _data(cloud)
    with cloned(cloud, HOST, OTHER, kept), _unharmed(cloud, kept, CLONE):
        answer, result = module(cloud, HOST, "virt_migrate", name=OWNER, pool=POOL, source_volumes="none")
        must(answer.status == 0 and result["changed"], answer.text)
        now = _files(cloud)
        must(all(path.startswith(f"{POOL_PLACE}/") for path in now.values()), f"its disks are {now}")


def _clear(cloud: Cloud) -> None:
    cloud.on(
        HOST,
        f"for machine in {OWNER} {OTHER}; do virsh destroy $machine;"
        " virsh undefine $machine --checkpoints-metadata --snapshots-metadata --managed-save; done;"
        f" virsh pool-destroy {POOL}; virsh pool-undefine {POOL};"
        f" rm -rf {POOL_PLACE} {BACKUPS} {CLONE} {IMAGES}/{OWNER}-* {IMAGES}/{OTHER}-*; virsh pool-refresh default",
    )
