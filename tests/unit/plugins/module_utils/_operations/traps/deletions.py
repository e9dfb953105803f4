# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that deletes a volume or writes over one, each brought to the point where it would do so."""

from __future__ import annotations

import dataclasses
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.images.files import Deadline
from ansible_collections.brine.virt.plugins.module_utils._host.images.provenance import keep_provenance
from ansible_collections.brine.virt.plugins.module_utils._host.images.prune import (
    PruneOptions,
    prune_images,
    remove_images,
)
from ansible_collections.brine.virt.plugins.module_utils._host.images.source_file import look_at_source
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressFile
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import Checksum
from ansible_collections.brine.virt.plugins.module_utils._model.image.provenance import Provenance
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import SeedNote, VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import VolumeRef
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.volume import VOLUME_RULES
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans, run_plans
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.cleanup import delete_proven
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.volume_identity import (
    identify_source,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import run
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.machines import carry_out, plan_purges
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.volumes import PurgeOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.step_watch import StepWatch
from ansible_collections.brine.virt.plugins.module_utils._operations.volumes.absent import plan_absent
from ansible_collections.brine.virt.plugins.module_utils._operations.volumes.change import read_volumes
from ansible_collections.brine.virt.plugins.module_utils._operations.volumes.present import plan_present
from ansible_collections.brine.virt.plugins.module_utils._operations.volumes.task import VolumeTask
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    SPEC,
    PurgeHost,
    disk,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volumes.volume_host import play_daemon

SYSTEM, MORE, ISO, IMAGE = "web1-system.qcow2", "web1-more.qcow2", "web1-seed.iso", "tiny-0123456789abcdef.qcow2"
TWO_DISKS: dict[str, t.Any] = {"disks": [*SPEC["disks"], {"name": "more", "size": "1MiB"}]}
REFRESH: dict[str, t.Any] = {"seed": {"user": "other"}, "seed_policy": "refresh"}
DATA = "data.qcow2"
SEED, MARK = b"another seed", "m" * 32
UNDEFINE: t.Any = getattr(getattr(libvirt, "virDomain", None), "undefineFlags", None)
# The flags that only a driver with files of its own takes.
_KEEP = ("VIR_DOMAIN_UNDEFINE_KEEP_NVRAM", "VIR_DOMAIN_UNDEFINE_KEEP_TPM")
_FILES = (*(f"VIR_DOMAIN_UNDEFINE_{word}" for word in ("NVRAM", "TPM", "CHECKPOINTS_METADATA")), *_KEEP)

Spring = t.Callable[[], None]


def undefine(domain: t.Any, flags: int = 0) -> t.Any:
    """What the daemon does with the UEFI variables."""
    path = Path(parse_xml(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)).findtext("os/nvram") or "/none")
    drop, keep = libvirt.VIR_DOMAIN_UNDEFINE_NVRAM, libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM
    if path.exists() and not flags & (drop | keep):
        raise AssertionError("the daemon refuses this")
    answer = UNDEFINE(domain, flags & ~sum(getattr(libvirt, name, 0) for name in _FILES))
    if flags & drop and path.exists():
        path.unlink()
    return answer


@dataclasses.dataclass(frozen=True)
class Deletion:
    """prepare: makes what is deleted. volume: its name.

    run: does all of it, and calls what it is given where a trap may spring up: late, after the plan was made, or
    before. Gives back what is said. named: the task names the volume itself, whatever is in it.
    """

    name: str
    volume: str
    prepare: t.Callable[[PurgeHost], t.Any]
    run: t.Callable[[PurgeHost, Spring, bool], str]
    twice: bool = True
    named: bool = False


def plan(host: PurgeHost, **changes: t.Any) -> MachinePlan:
    hypervisor = Hypervisor(host.conn, image_pool="default")
    return make_plans([read_machine({**SPEC, **changes})], hypervisor, "")[0]


def said(plan_made: MachinePlan) -> str:
    (result,) = run_plans([plan_made], concurrency=1)
    return f"{result.error} {'; '.join(result.actions)}"


def plan_and_run(host: PurgeHost, spring: Spring, late: bool, **changes: t.Any) -> str:
    if not late:
        spring()
    try:
        todo = plan(host, **changes)
    except VirtError as exc:
        return str(exc)
    if late:
        spring()
    return said(todo)


def cut_off(host: PurgeHost, steps: int, **changes: t.Any) -> None:
    for step in plan(host, **changes).steps[:steps]:
        step.apply()


def purge(host: PurgeHost, spring: Spring, late: bool) -> str:
    if not late:
        spring()
    results = plan_purges(host.conn, ["web1"], PurgeOptions())
    if late:
        spring()
    carry_out(host.conn, results, PurgeOptions(), StepWatch(ProgressFile(None)), lock_seconds=1)
    return str([result.as_result() for result in results])


def _stored(host: PurgeHost) -> None:
    """As virt_image leaves it, which nothing else would delete."""
    path = host.image(host.pool / IMAGE)
    keep_provenance(str(path), Provenance((Checksum("sha256", "0123456789abcdef" * 4),)))
    path.chmod(0o444)


def _remove_image(host: PurgeHost, spring: Spring, _late: bool) -> str:
    spring()
    try:
        remove_images(host.conn, "default", "tiny", PruneOptions(0, False), Deadline(9), check_mode=False)
    except VirtError as exc:
        return str(exc)
    return "removed"


def _prune_images(host: PurgeHost, spring: Spring, _late: bool) -> str:
    spring()
    pruned = prune_images(host.conn, "default", None, PruneOptions(0, False), Deadline(9), check_mode=False)
    return str([decision.reason for decision in pruned.decisions])


def _seeded(host: PurgeHost) -> None:
    """The test driver takes no seed, so it is written here."""
    host.make()
    path = host.image(host.pool / ISO)
    known = host.notes()
    os.setxattr(path, "user.brine.build", MARK.encode())
    host.attach("web1", disk(path, "sdz", device="cdrom", image_format="raw"))
    seed = VolumeNote("default", path.name, "seed", format="raw", identity=MARK)
    host.write(dataclasses.replace(known, volumes=(*known.volumes, seed), seed=SeedNote("nocloud", "0" * 64)))


def fail_after(host: PurgeHost, volume: str, spring: Spring, **changes: t.Any) -> str:
    """A run that makes the volume, and then fails."""
    todo = plan(host, **changes)
    steps: list[t.Any] = list(todo.steps)
    index = next(i for i, step in enumerate(steps) if volume in step.description)

    def fail() -> None:
        spring()
        raise HostError("the disk has caught fire")

    steps[index + 1] = dataclasses.replace(steps[index + 1], apply=fail)
    return said(dataclasses.replace(todo, steps=steps))


def _unfinished(host: PurgeHost) -> None:
    cut_off(host, 2)
    with (host.pool / SYSTEM).open("ab") as file:
        file.write(b"what the run had brought so far")


def _half_added(host: PurgeHost) -> None:
    host.make()
    cut_off(host, 2, **TWO_DISKS)


def _delete_moved(host: PurgeHost, spring: Spring, *, fresh: bool) -> str:
    identity = identify_source(Pools(host.conn).get("default"), SYSTEM, MARK)
    spring()
    return str(delete_proven(host.conn, [VolumeRef("default", SYSTEM, identity)], fresh=fresh))


def _volume_task(host: PurgeHost, spring: Spring, late: bool, **options: t.Any) -> str:
    """What virt_volume says of it."""
    if not late:
        spring()
    (spec,) = read_volumes({**dict.fromkeys(VOLUME_RULES), "volumes": None, "name": DATA, **options})
    task = VolumeTask(host.conn, 1)
    try:
        source = look_at_source(spec.path, "path") if spec.path and spec.present else None
        look = task.look()
        planned = plan_present(spec, source, look, task) if spec.present else plan_absent(spec, look, task)
    except VirtError as exc:
        return str(exc)
    if late:
        spring()
    try:
        run(planned.plan.steps)
    except VirtError as exc:
        return str(exc)
    return f"{planned.unchecked}"


def _replace_volume(host: PurgeHost, spring: Spring, late: bool) -> str:
    path = host.outside.parent / "new"
    path.write_bytes(b"new" * 1024 * 512)
    with pytest.MonkeyPatch.context() as patched:
        play_daemon(patched)
        return _volume_task(host, spring, late, path=str(path), replace=True)


DELETIONS = (
    Deletion("purge", SYSTEM, lambda host: host.make(), purge),
    Deletion("image absent", IMAGE, _stored, _remove_image, twice=False),
    Deletion("images pruned", IMAGE, _stored, _prune_images, twice=False),
    Deletion("seed refreshed", ISO, _seeded, lambda host, spring, late: plan_and_run(host, spring, late, **REFRESH)),
    Deletion(
        "a new machine rolled back",
        SYSTEM,
        lambda host: None,
        lambda host, spring, _late: fail_after(host, SYSTEM, spring),
        twice=False,
    ),
    Deletion(
        "a new disk rolled back",
        MORE,
        lambda host: host.make(),
        lambda host, spring, _late: fail_after(host, MORE, spring, **TWO_DISKS),
        twice=False,
    ),
    Deletion("an unfinished machine cleared", SYSTEM, _unfinished, plan_and_run),
    Deletion("a half-added disk cleared", MORE, _half_added, plan_and_run),
    Deletion(
        "the source after a move",
        SYSTEM,
        lambda host: host.image(host.pool / SYSTEM),
        lambda host, spring, _late: _delete_moved(host, spring, fresh=False),
        twice=False,
    ),
    Deletion(
        "the target after a failed move",
        SYSTEM,
        lambda host: host.image(host.pool / SYSTEM),
        lambda host, spring, _late: _delete_moved(host, spring, fresh=True),
        twice=False,
    ),
    Deletion(
        "volume absent",
        DATA,
        lambda host: host.image(host.pool / DATA),
        lambda host, spring, late: _volume_task(host, spring, late, state="absent"),
        named=True,
    ),
    Deletion("volume replaced", DATA, lambda host: host.image(host.pool / DATA), _replace_volume, named=True),
)


def deletion_named(name: str) -> Deletion:
    return next(deletion for deletion in DELETIONS if deletion.name == name)


MOMENTS = [(deletion, late) for deletion in DELETIONS for late in ((False, True) if deletion.twice else (False,))]
