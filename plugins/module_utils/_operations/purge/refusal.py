# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that are not removed as the task stands, and would be with another option of it."""

from __future__ import annotations

from ..._base.errors import ConflictError

# It is running or paused; its operating system cannot shut down; its state is saved; others created it.
ACTIVE, UNABLE, SAVED, FOREIGN = "active", "unable", "saved", "foreign"
OBSTACLES = (ACTIVE, UNABLE, SAVED, FOREIGN)


class RefusedError(ConflictError):
    """A machine that is not removed, though an option of virt_purge allows it: the hint names that option.

    obstacle: one of OBSTACLES, for who calls the option otherwise, such as a playbook.
    """

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None, obstacle: str = "") -> None:
        self.obstacle = obstacle
        super().__init__(what, where=where, hint=hint)
