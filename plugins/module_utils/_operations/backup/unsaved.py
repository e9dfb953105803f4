# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine writes to and no backup has, of which whoever relies on its backups should know."""

from __future__ import annotations

import typing as t

from ..._host.machines.domains import Domain, description_of
from ..._model.attachments import written_disks


def unsaved_disks(domain: Domain, left_out: t.Container[str]) -> tuple[str, ...]:
    """Of the disks that are left out, the targets of those that the machine writes to, now or from its next start on.

    Without those that keep nothing of it (transient). Raises VirtError.
    """
    written = written_disks(domain.xml)
    if domain.active:
        written = {**written, **written_disks(description_of(domain.handle))}
    return tuple(
        sorted(target for target, disk in written.items() if target in left_out and disk.find("transient") is None)
    )
