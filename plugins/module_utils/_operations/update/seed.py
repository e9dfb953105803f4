# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new seed in the place of the old one, for a machine that is there already."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.storage import volumes
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.usage import Usage, require_unused
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import SeedNote
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.validators import inside
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import Machine
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step
from ansible_collections.brine.virt.plugins.module_utils._operations.update.draft import Draft
from ansible_collections.brine.virt.plugins.module_utils._seeding.nocloud import seed_digest, seed_documents, seed_image


def refresh_seed(machine: Machine, draft: Draft, where: str) -> None:
    """Put a new seed in the place of the old one; the guest reads it at its next boot, and keeps its own host keys.

    Raises UnsupportedError for a machine whose seed is no volume, ConflictError when something else uses that.
    """
    old = draft.notes.seed
    note = next((volume for volume in draft.notes.volumes if volume.role == "seed"), None)
    if old is None or note is None or machine.seed.method != old.method:
        raise UnsupportedError(
            f"machine {machine.name} was seeded by {old.method if old else 'nothing'}, and has no seed volume",
            where=inside(where, "seed_policy"),
            hint="Only a seed of method nocloud can be refreshed",
        )
    pool = draft.hypervisor.pools.get(note.pool)
    _require_own(machine.name, pool, note.name, draft.hypervisor.usage)
    documents = seed_documents(machine, ())
    draft.differ(("seed",), old.sha256, seed_digest(machine))
    draft.notes = replace(draft.notes, seed=SeedNote(old.method, seed_digest(machine), machine.seed.user))
    draft.live_steps.append(
        Step(
            f"write the new seed of {machine.name} ({note.name} in pool {note.pool})",
            lambda: _refill(machine.name, pool, note.name, seed_image(documents), draft.hypervisor),
        )
    )
    if draft.live is not None:
        draft.pending.append("seed")


def _refill(machine: str, pool: Pool, volume: str, content: bytes, hypervisor: Hypervisor) -> None:
    _require_own(machine, pool, volume, Usage(hypervisor.conn))
    volumes.refill(pool, volume, content, hypervisor.conn)


def _require_own(machine: str, pool: Pool, volume: str, usage: Usage) -> None:
    """Raise ConflictError when anything else has the volume: what is written over is lost to all who read it."""
    require_unused(usage, [(pool, volume)], besides=machine, fresh=True)
