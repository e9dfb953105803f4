# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all network managers' changes share."""

from __future__ import annotations

import subprocess

from ansible_collections.brine.virt.plugins.module_utils._network.managers.manager import delete_link


def test_an_interface_that_is_gone_is_no_failure() -> None:
    done = subprocess.run(delete_link("brine-gone0"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
