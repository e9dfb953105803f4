# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever was written, whatever is to be kept, wherever a run is killed: what is kept reads as before."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._host.backup.directory import list_backups
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressMeter
from ansible_collections.brine.virt.plugins.module_utils._model.backup.retention import Keep, chosen
from ansible_collections.brine.virt.plugins.module_utils._operations.backup import retain
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.options import BackupOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.result import BackupResult
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.backup.backup_files import (
    UUID,
    add_backup,
    killed,
    recover,
    require_whole,
    run,
)

pytestmark = pytest.mark.medium

# Also such as are no whole number of clusters, which a chain of ours has where a disk was grown by hand.
SIZES = (1 << 20, (1 << 20) + 512, (1 << 20) - 65536)
SECTOR, CLUSTER = 512, 65536
# About as many as a run has.
MOST_STEPS = 70
FEW, HALF = 0.1, 0.5


@dataclass(frozen=True)
class Day:
    """One backup. after: days since the one before. changes: commands of qemu-io."""

    full: bool
    after: int
    size: int
    changes: Sequence[str]


def any_day(chance: Random) -> Day:
    size = chance.choice(SIZES)
    changes = []
    for _number in range(chance.randint(1, 4)):
        word = chance.choice(["write -P 7", "write -P 200", "write -P 0", "write -z", "write -z -u", "discard"])
        start = chance.choice([chance.randrange(size // SECTOR), size // CLUSTER * CLUSTER // SECTOR - 1])
        length = min(chance.choice([SECTOR, CLUSTER, 3 * CLUSTER]), size - start * SECTOR)
        changes.append(f"{word} {start * SECTOR} {length}")
    return Day(chance.random() < FEW, chance.randint(1, 5), size, changes)


def any_keep(chance: Random) -> Keep:
    """Mostly such that an older one of the same chain is kept as well."""
    rarely = chance.choice(["daily", "monthly"])
    return Keep({"last": chance.randint(1, 2), "weekly": chance.randint(0, 4), rarely: chance.randint(0, 2)})


def make(place: Path, made: Sequence[Day]) -> None:
    when = date(2026, 11, 1)
    for number, day in enumerate(made):
        when += timedelta(days=day.after)
        kind = "full" if day.full or number == 0 else "incremental"
        name = f"{when:%Y%m%d}T020000Z-{kind}"
        add_backup(place, name, 0, size=day.size, changes=day.changes)


def read(place: Path, names: t.Iterable[str]) -> dict[str, bytes]:
    """All that a guest would read from each."""
    found, raw = {}, place / "raw"
    for name in names:
        run("qemu-img", "convert", "-f", "qcow2", "-O", "raw", str(place / "web1" / name / "vda.qcow2"), str(raw))
        found[name] = raw.read_bytes()
    return found


def keep_some(place: Path, keep: Keep, most: int) -> BackupResult:
    result = BackupResult("web1")
    options = BackupOptions(str(place), keep=keep, merge_above=most)
    with pytest.MonkeyPatch.context() as patch, open_connection("test:///default") as conn:
        patch.setattr(retain, "hypervisor_lock", lambda _name, **_settings: contextlib.nullcontext())
        meter = ProgressMeter(lambda _line: None, "web1")
        retain.retain(conn, result, UUID, options, threading.Event(), meter)
    assert not result.as_result()["remarks"]
    return result


@settings(max_examples=max(8, settings().max_examples // 12))
@given(seed=st.integers(0, 1 << 32))
def test_what_is_kept_reads_as_before(seed: int) -> None:
    """seed: of all that is chosen. From a few examples of its own making Hypothesis chooses the least of everything."""
    chance = Random(seed)
    keep, most, step = any_keep(chance), chance.choice([0, 0, 1, 2]), chance.randint(1, MOST_STEPS)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make(place, [any_day(chance) for _number in range(chance.randint(5, 7))])
        kept = chosen(list(list_backups(str(place), "web1").by_id.values()), keep)
        before = read(place, kept)
        if chance.random() < HALF:
            killed(step, lambda: keep_some(place, keep, most))
            # Nobody has repaired anything yet.
            require_whole(place)
            assert read(place, kept) == before
            recover(place)
        keep_some(place, keep, most)
        require_whole(place)
        assert read(place, kept) == before
        found = list_backups(str(place), "web1")
        assert len(found.by_id) <= len(kept) + most
        assert not found.unfinished
        last = keep_some(place, keep, most)
        assert (last.merged, last.removed, last.actions) == ([], [], [])
