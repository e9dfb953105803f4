# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of whose a directory of backups may be (module_utils/_host/backup/trust.py)."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  owner:
    description:
      - The user, by name or number, who may own the directory of the backups, what is above it and what is in it,
        besides root.
      - Backups are written and read as root, by their paths. Whoever can change these can have any file of the
        hypervisor overwritten, or read into a machine. So it is an error if the directory, one above it or anything in
        it belongs to anybody else, or can be written to by others, be it by an entry of a POSIX access control list.
        NFSv4 lists are not seen. Directories above it may have the sticky bit, as C(/tmp) has.
      - It is needed for a share on which root is another user (C(root_squash) of NFS), and for a directory that
        belongs to a backup user on purpose. That user can then do all that root can.
    type: str
"""
