# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What libvirt is asked for."""

from __future__ import annotations

from ansible_collections.brine.virt.plugins.module_utils._model.backup.backup_xml import backup_xml, checkpoint_xml


def test_an_incremental_backup_names_its_checkpoint_and_leaves_out_what_is_not_named() -> None:
    assert backup_xml({"vda": "/b/a&b.qcow2"}, ["vdz"], "c1") == (
        '<domainbackup mode="push"><incremental>c1</incremental><disks>'
        '<disk name="vda" backup="yes" type="file"><target file="/b/a&amp;b.qcow2"/><driver type="qcow2"/></disk>'
        '<disk name="vdz" backup="no"/></disks></domainbackup>'
    )
    assert "incremental" not in backup_xml({"vda": "/b/a"}, [], None)


def test_a_checkpoint_is_of_the_named_disks_alone() -> None:
    assert checkpoint_xml("c1", "why", ["vda"], ["vdz"]) == (
        "<domaincheckpoint><name>c1</name><description>why</description><disks>"
        '<disk name="vda" checkpoint="bitmap"/><disk name="vdz" checkpoint="no"/></disks></domaincheckpoint>'
    )
