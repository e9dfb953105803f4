# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only has the name of a volume that is deleted or written over stays; so does what the machine's own disks need,
and what may be used where nobody can see it."""

from __future__ import annotations

import dataclasses
import shutil

import pytest

from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import PurgeHost, disk
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.traps.deletions import (
    DELETIONS,
    IMAGE,
    ISO,
    MOMENTS,
    Deletion,
    deletion_named,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.traps.users import (
    pool_that_is_not_active,
)

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")

# An image's name says its content, and who puts another one there has done it against the store.
# What the task itself names is what is there when it is planned.
OWN = [(deletion, late) for deletion, late in MOMENTS if deletion.volume != IMAGE and (late or not deletion.named)]
IDS = [f"{each.name}{', planned before' if late else ''}" for each, late in OWN]
OF_MACHINES = [pair for pair in OWN if "move" not in pair[0].name and not pair[0].named]
# What is known to have been made a moment ago, or to be the seed that was made, needs no more than that.
FRESH = ("a new machine rolled back", "a new disk rolled back", "the target after a failed move", "seed refreshed")


@pytest.mark.parametrize(("deletion", "late"), OWN, ids=IDS)
def test_another_file_under_its_name_stays(host: PurgeHost, deletion: Deletion, late: bool) -> None:
    path = host.pool / deletion.volume
    before: list[bytes] = []

    def spring() -> None:
        path.unlink()
        host.image(path)
        with path.open("ab") as file:
            file.write(b"what somebody has restored" * 10000)
        before.append(path.read_bytes())

    deletion.prepare(host)
    words = deletion.run(host, spring, late)
    assert deletion.volume in words
    assert path.read_bytes() == before[0]


@pytest.mark.parametrize(("deletion", "late"), OF_MACHINES, ids=[IDS[OWN.index(pair)] for pair in OF_MACHINES])
def test_what_backs_another_disk_of_the_machine_stays(host: PurgeHost, deletion: Deletion, late: bool) -> None:
    """That disk is in no pool, and stays."""
    path = host.pool / deletion.volume
    before: dict[str, str] = {}

    def spring() -> None:
        host.attach("web1", disk(host.image(host.outside / "clone.qcow2", below=path), "vdz"))
        before.update({name: digest for name, digest in host.files().items() if name in (path.name, "clone.qcow2")})

    deletion.prepare(host)
    words = deletion.run(host, spring, late)
    # A half-added disk that the machine needs is taken for whole, without a word.
    assert deletion.volume in words or (deletion.name == "a half-added disk cleared" and not late)
    assert len(before) == 2
    assert before.items() <= host.files().items()


@pytest.mark.parametrize("deletion", DELETIONS, ids=lambda deletion: str(deletion.name))
def test_what_may_be_in_use_stays_unless_it_is_proven_to_be_new(host: PurgeHost, deletion: Deletion) -> None:
    before: dict[str, str] = {}

    def spring() -> None:
        words.append(pool_that_is_not_active(host, host.pool))
        before.update(host.files())

    words: list[str] = []
    deletion.prepare(host)
    answer = deletion.run(host, spring, False)
    stays = host.files().get(deletion.volume) == before[deletion.volume]
    assert (stays, words[0] in answer) == ((False, False) if deletion.name in FRESH else (True, True))


@pytest.mark.parametrize("attached", [True, False])
def test_a_seed_that_nothing_proves_is_written_over_only_where_the_machine_has_it(
    host: PurgeHost, attached: bool
) -> None:
    """Notes of earlier versions, and of machines that have been moved."""
    deletion = deletion_named("seed refreshed")
    deletion.prepare(host)
    notes = host.notes()
    host.write(dataclasses.replace(notes, volumes=tuple(dataclasses.replace(n, identity="") for n in notes.volumes)))
    if not attached:
        host.detach("web1", ISO)
    before = host.files()
    words = deletion.run(host, lambda: None, False)
    assert (host.files() != before) == attached
    assert attached or f"volume {ISO} of pool default is kept" in words
