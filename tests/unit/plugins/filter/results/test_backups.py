# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbooks say of backups, and whom they ask before one is restored."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter import purges, query
from ansible_collections.brine.virt.plugins.plugin_utils._reports.results import backup_report, restore_twins

UUID = "4dea22b3-1d52-4f1f-9a1c-7b2f5a3d6e10"
DONE: dict[str, t.Any] = {"failed": False, "actions": ["x"], "removed": [], "verified": [], "seconds": 1.4}


def test_the_table() -> None:
    machines = [
        {**DONE, "name": "web1", "kind": "incremental", "id": "20261123T020000Z-incremental", "bytes": 22020096,
         "reason": "", "quiesced": True},
        {**DONE, "name": "db1", "kind": "full", "id": "20261123T020001Z-full", "bytes": 1 << 30,
         "reason": "the machine is off", "quiesced": False, "removed": ["a", "b"], "merged": ["c"],
         "unsaved_disks": ["vdc", "vdd"]},
        {**DONE, "name": "old", "actions": [], "verified": ["a"]},
        {**DONE, "name": "checked", "seconds": 0, "actions": [], "to_verify": ["a", "b"]},
        {**DONE, "name": "next", "seconds": 0, "kind": "full", "id": None, "removed": ["a"], "merged": ["b"]},
        {**DONE, "name": "bad", "failed": True, "msg": "it has\nno disk"},
    ]  # fmt: skip
    results = {"hv1": {"machines": machines}, "hv2": {"skipped": True}, "hv3": {"msg": "no root"}}
    report = backup_report(results, {"hv4": "did not answer"})
    assert report["text"].splitlines() == [
        "MACHINE  ON   KIND          SIZE  SECONDS  DONE",
        "web1     hv1  incremental  21.0M      1.4  20261123T020000Z-incremental",
        "db1      hv1  full          1.0G      1.4  20261123T020001Z-full, without vdc and vdd, full because "
        "the machine is off, not quiesced, 1 merged, 2 removed",
        "old      hv1  -                -      1.4  1 verified",
        "checked  hv1  -                -        -  2 would be verified",
        "next     hv1  full             -        -  would be backed up, 1 would be merged, 1 would be removed",
        "bad      hv1  -                -      1.4  failed: it has no disk",
        "hv3: no root",
        "hv4: did not answer",
    ]
    assert report["failed"] == ["bad on hv1: it has no disk", "hv3: no root", "hv4: did not answer"]


def test_backups_that_would_be_verified_are_listed() -> None:
    full = {"id": "20261123T020000Z-full", "made": "2026-11-23T02:00:00Z", "kind": "full", "bytes": 2 << 30}
    more = {**full, "id": "20261124T020000Z-incremental", "made": "2026-11-24T02:00:00Z", "kind": "incremental"}
    backups = [{**more, "bytes": 22020096, "quiesced": True}, {**full, "quiesced": False}]
    one = {**DONE, "name": "web1", "seconds": 0, "actions": [], "to_verify": ["a", "b"], "backups": backups}
    other = {**DONE, "name": "db1", "actions": [], "verified": ["a"], "backups": backups}
    assert backup_report({"hv1": {"machines": [one, other]}})["text"].splitlines()[3:] == [
        "",
        "MACHINE  ON   BACKUP                        MADE                  KIND          SIZE  QUIESCED",
        "web1     hv1  20261124T020000Z-incremental  2026-11-24T02:00:00Z  incremental  21.0M  yes",
        "web1     hv1  20261123T020000Z-full         2026-11-23T02:00:00Z  full          2.0G  no",
    ]


def test_a_damaged_backup_is_listed_as_such() -> None:
    backup = {"id": "20261123T020000Z-full", "made": "2026-11-23T02:00:00Z", "kind": "full", "bytes": 2 << 30}
    good, bad = ({**backup, "quiesced": True, "damaged": words} for words in ("", "vda.qcow2 has another content"))
    one = {**DONE, "name": "web1", "seconds": 0, "actions": [], "to_verify": ["a", "b"], "backups": [bad, good]}
    assert backup_report({"hv1": {"machines": [one]}})["text"].splitlines()[-2:] == [
        "web1     hv1  20261123T020000Z-full  2026-11-23T02:00:00Z  full, damaged  2.0G  yes",
        "web1     hv1  20261123T020000Z-full  2026-11-23T02:00:00Z  full           2.0G  yes",
    ]


def test_nothing_selected() -> None:
    assert backup_report({"hv1": {"skipped": True}}, {})["text"] == "No machine is selected."
    assert backup_report({}, {})["failed"] == []


def found(*machines: tuple[str, str]) -> dict[str, t.Any]:
    return {"machines": [{"name": name, "uuid": uuid, "state": "running"} for name, uuid in machines]}


def test_who_else_has_it() -> None:
    results = {
        "hv1": found(("web1", UUID)),
        "hv2": found(("web1", "other")),
        "hv3": found(("renamed", UUID)),
        "hv4": {"failed": True, "msg": "no way"},
    }
    assert restore_twins(results, "hv1", "web1", UUID) == [
        "machine web1 is on hv2, so web1 is not restored on hv1.",
        "machine renamed, with the same UUID, is on hv3, so web1 is not restored on hv1.",
        "hv4 may have web1 already: did not answer: no way. If you know that it is not there, add -e virt_unseen=web1.",
    ]
    assert len(restore_twins(results, "hv1", "web1", UUID, unseen=True)) == 2
    assert restore_twins(results, "hv1", None, None) == []
    assert restore_twins({"hv1": found(("web1", UUID)), "hv2": found()}, "hv1", "web1", UUID) == []


def test_where_it_was_seen_that_nobody_asks_any_more_it_may_run() -> None:
    twins = purges.FilterModule().filters()["restore_twins"]
    results, seen = {"hv1": found(), "hv2": found()}, {"web1": ["hv1", "hv3"]}
    assert twins(results, "hv1", "web1", UUID, last_seen=seen) == [
        "web1 was seen on hv3, which is not among the hypervisors now, and may run there: restored on hv1, it would "
        "exist twice. Put that hypervisor back into the inventory. If it never comes back, take it out for good: "
        "brine.virt.retire -e from=hv3 -e lost=true. If it has another name now, or you know that the machine is "
        "not there, add -e virt_unseen=web1. If it is another cloud that has a machine of this name there, give "
        "each cloud its own file of host keys: known_hosts of its live inventory, and virt_known_hosts."
    ]
    for unseen in ("web1", "place", ["web1"]):
        assert twins(results, "hv1", "web1", UUID, last_seen=seen, unseen=unseen) == []
        silent = {**results, "hv3": {"unreachable": True, "msg": "no route"}}
        assert twins(silent, "hv1", "web1", UUID, last_seen=seen, unseen=unseen) == []
    assert len(twins(silent, "hv1", "web1", UUID, last_seen=seen, unseen="web2")) == 1
    # Where it is, it is replaced; one disk is no machine; others have other names; and all are asked.
    assert twins({**results, "hv1": found(("web1", UUID))}, "hv1", "web1", UUID, last_seen=seen) == []
    assert twins(results, "hv1", None, None, last_seen=seen) == []
    assert twins(results, "hv1", "web2", UUID, last_seen=seen) == []
    assert twins({**results, "hv3": found()}, "hv1", "web1", UUID, last_seen=seen) == []
    with pytest.raises(AnsibleFilterError, match=r"virt_unseen: True is not a list of names"):
        twins(results, "hv1", "web1", UUID, last_seen=seen, unseen=True)


def test_what_is_no_result_is_refused() -> None:
    for module, name, more in ((query, "backup_report", ()), (purges, "restore_twins", ("hv1", "web1", UUID))):
        with pytest.raises(AnsibleFilterError, match=f"brine.virt.{name}: the input is not a mapping"):
            module.FilterModule().filters()[name]([], *more)
