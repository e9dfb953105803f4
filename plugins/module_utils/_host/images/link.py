# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Another name for a stored image: a hard link. Images are never written to, and each name is deleted by itself."""

from __future__ import annotations

import os

from ansible_collections.brine.virt.plugins.module_utils._base.files import sync_folder
from ansible_collections.brine.virt.plugins.module_utils._host.images.files import disk_errors


def link_image(path: str, final_path: str) -> bool:
    """Give a stored image another name in its directory, safe on the disk; False where that cannot be."""
    try:
        os.link(path, final_path, follow_symlinks=False)
    except OSError:
        # The name is taken, the file has too many, or a file system without links.
        return False
    with disk_errors(f"cannot store {final_path}"):
        sync_folder(os.path.dirname(final_path))
    return True
