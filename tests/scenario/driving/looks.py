# SPDX-License-Identifier: GPL-3.0-or-later
"""How an operator looks at a machine: by the playbooks list and query, and in the live inventory, all at the same time.

None of them may take longer than its limit, whatever the guest does.
"""

from __future__ import annotations

import json
import re
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..cloud import Cloud, must

# A hypervisor has 45 s to answer a playbook, and 10 s the inventory; the rest is Ansible, three at once.
_SECONDS = 75
_NAME, _STATE, _ON, _ADDRESS = range(4)
_T = t.TypeVar("_T")


@dataclass(frozen=True)
class Look:
    """What was seen of a machine.

    state, on, address: its cells in the table of list. table, query: all that the two playbooks said. variables,
    groups: of its host in the inventory.
    """

    state: str
    on: str
    address: str
    table: str
    query: str
    variables: dict[str, t.Any]
    groups: frozenset[str]


def look(cloud: Cloud, name: str) -> Look:
    """Look at a machine in all three ways. Each has to show it once, in time, and all hypervisors have to answer."""
    with ThreadPoolExecutor(3) as pool:
        listing = pool.submit(_in_time, "list", lambda: cloud.play_well("list", live=False))
        querying = pool.submit(_in_time, "query", lambda: cloud.play_well("query", "-e", f"vm={name}", live=False))
        asking = pool.submit(_in_time, "the inventory", cloud.listed)
        listed, queried, inventory = listing.result(), querying.result(), asking.result()
    for answer in (listed, queried):
        must("did not answer" not in answer.one_line, answer.text)
    # Two blanks are between columns, and none within a cell.
    rows = [re.split(r" {2,}", line) for line in listed.text.splitlines() if line.startswith(f"{name} ")]
    rows = [row for row in rows if row[_NAME] == name]
    must(len(rows) == 1, f"list shows it {len(rows)} times: {listed.text}")
    shown = queried.text.splitlines().count(name)
    must(shown == 1, f"query shows it {shown} times: {queried.text}")
    hosts = inventory["_meta"]["hostvars"]
    # One of two of the same name has its hypervisor behind it.
    named = [host for host in hosts if host == name or host.startswith(f"{name}_")]
    must(named == [name], f"the inventory has the hosts {named} of {sorted(hosts)}")
    groups = frozenset(group for group, content in inventory.items() if name in content.get("hosts", ()))
    (row,) = rows
    return Look(row[_STATE], row[_ON], row[_ADDRESS], listed.text, queried.text, hosts[name], groups)


def _in_time(what: str, work: t.Callable[[], _T]) -> _T:
    began = time.monotonic()
    found = work()
    took = time.monotonic() - began
    must(took < _SECONDS, f"{what} took {took:.0f} s: {found}")
    return found


def document(cloud: Cloud, playbook: str, *words: str) -> dict[str, t.Any]:
    """The data that a playbook shows with output=json."""
    lines = cloud.play_well(playbook, *words, "-e", "output=json").text.splitlines()
    return dict(json.loads("\n".join(lines[lines.index("{") : lines.index("}") + 1])))
