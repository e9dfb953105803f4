# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook snapshot says."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter import query
from ansible_collections.brine.virt.plugins.plugin_utils._reports.results import snapshot_report

DONE: dict[str, t.Any] = {"failed": False, "actions": [], "snapshot": None, "state": "running", "seconds": 0}


def test_the_table() -> None:
    machines = [
        {**DONE, "name": "web1", "actions": ["take snapshot a of web1 (internal, with memory)"], "seconds": 2.1},
        {**DONE, "name": "web2", "snapshot": "a"},
        {**DONE, "name": "web3"},
        {**DONE, "name": "web4", "snapshots": [{"name": "before-upgrade"}, {"name": "b"}]},
        {**DONE, "name": "db1", "state": None, "failed": True, "msg": "it is\nrunning"},
        {**DONE, "name": "db2", "actions": ["delete snapshot a of db2"], "failed": True, "msg": "no room"},
    ]
    results = {"hv1": {"machines": machines}, "hv2": {"skipped": True}, "hv3": {"msg": "no root"}}
    report = snapshot_report(results, {"hv4": "did not answer"})
    assert report["text"].splitlines() == [
        "MACHINE  ON   STATE    SECONDS  DONE",
        "web1     hv1  running      2.1  take snapshot a of web1 (internal, with memory)",
        "web2     hv1  running        -  snapshot a exists already",
        "web3     hv1  running        -  nothing to delete",
        # Who has misspelt the name sees it.
        "web4     hv1  running        -  nothing to delete: it has before-upgrade, b",
        "db1      hv1  -              -  failed: it is running",
        "db2      hv1  running        -  delete snapshot a of db2, then failed: no room",
        "hv3: no root",
        "hv4: did not answer",
    ]
    assert report["failed"] == [
        "db1 on hv1: failed: it is running",
        "db2 on hv1: delete snapshot a of db2, then failed: no room",
        "hv3: no root",
        "hv4: did not answer",
    ]


def test_what_is_no_result_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match=r"brine\.virt\.snapshot_report: the input is not a mapping"):
        query.FilterModule().filters()["snapshot_report"]([])
