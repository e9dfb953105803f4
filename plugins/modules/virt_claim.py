#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: take the names of new machines on a hypervisor."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_claim
short_description: Claim the names of new machines, so that two runs cannot create the same machine
version_added: "1.0.0"
description:
  - Claims the names of new machines on a hypervisor, withdraws such claims, and says which names are taken there.
  - The role P(brine.virt.virt_provision#role) calls it before M(brine.virt.virt_init) if there are several hypervisors.
    A single task with M(brine.virt.virt_init) does not need it.
  - The playbook C(brine.virt.restore) calls it before M(brine.virt.virt_restore), for the same reason.
  - A claim is a machine without disks and nics, marked as unfinished, which M(brine.virt.virt_init) or
    M(brine.virt.virt_restore) turns into the machine itself. One that a killed run has left behind is taken over by the
    next run on this hypervisor.
  - While it holds the hypervisor's lock, it checks again why the hypervisor was chosen (O(decision)). If something is
    no longer true, the task fails, and nothing is claimed.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._lock
  - brine.virt._uri
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  machines:
    description:
      - The machines whose names to claim, as P(brine.virt.place#filter) returned them in C(new_by_host). To name one
        twice is an error.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the machine.
        type: str
        required: true
      memory_mib:
        description: The maximum memory that it can have, in MiB.
        type: int
        required: true
      vcpus:
        description: The maximum number of virtual CPUs that it can have.
        type: int
        required: true
      uuid:
        description:
          - The UUID that the machine is to have, as M(brine.virt.virt_restore) returned it in check mode. Without it,
            the machine gets a new one.
        type: str
      anti_affinity:
        description: Its anti-affinity groups, so that no other run puts a machine of one of them here meanwhile.
        type: list
        elements: str
  decision:
    description:
      - Why this hypervisor was chosen, as in O(brine.virt.virt_init#module:decision).
    type: dict
    default: {}
  withdraw:
    description:
      - Claims to withdraw first, UUIDs by name. What has become more than a claim by now is kept.
    type: dict
    default: {}
  look_for:
    description:
      - Names to look for on this hypervisor.
    type: list
    elements: str
    default: []
notes:
  - With the default O(uri) the task has to run as root on the hypervisor, so with C(become=true) unless Ansible logs in
    as root, if it has O(machines) or O(withdraw).
seealso:
  - module: brine.virt.virt_init
  - module: brine.virt.virt_restore
"""

EXAMPLES = r"""
---
- name: Claim a name
  brine.virt.virt_claim:
    machines:
      - {name: web1, memory_mib: 2048, vcpus: 2}
  register: claimed

- name: Withdraw the claim
  brine.virt.virt_claim:
    withdraw: "{{ claimed.claims }}"
"""

RETURN = r"""
claims:
  description:
    - The UUIDs of the claims by name. A name that a machine on this hypervisor already has is not included. In check
      mode, only names that were claimed before are.
  returned: success
  type: dict
  sample: {web1: 4a5e8c3e-6ad5-4c39-9d3b-9f1c8f3d1c55}
machines:
  description:
    - The machines here that have one of the names in O(look_for), by name; C(claimed) says whether one is only a claim.
  returned: success
  type: dict
  sample: {web1: {uuid: 4a5e8c3e-6ad5-4c39-9d3b-9f1c8f3d1c55, claimed: true}}
"""

import contextlib
import typing as t
import uuid

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError, Mistakes
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import validators
from ansible_collections.brine.virt.plugins.module_utils._model.spec.names import machine_name
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_module, require_root
from ansible_collections.brine.virt.plugins.module_utils._operations.create.claims import (
    Claim,
    is_claim,
    look_for,
    make_claims,
    new_claims,
    withdraw_claims,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.create.decision import (
    PlacementDecision,
    check_hypervisor,
    read_decision,
)

# libvirt writes memory in KiB, in 64 bits.
_AMOUNT = validators.whole_number(1, 2**53)


def _uuid(given: str, where: str) -> str:
    """A UUID as libvirt writes it. Raises InputError."""
    try:
        return str(uuid.UUID(given))
    except ValueError:
        raise InputError(f"{given!r} is not a UUID", where=where) from None


def read_claims(machines: list[dict[str, t.Any]]) -> list[Claim]:
    """The names that are to be claimed. Raises InputError with a line for each that cannot be."""
    claims: list[Claim] = []
    mistakes = Mistakes()
    for index, item in enumerate(machines):
        where = f"machines[{index}]"
        with mistakes.noted():
            identity = item.get("uuid")
            # One that is restored may have been named by somebody else.
            name = item["name"] if identity else machine_name(item["name"], f"{where}.name")
            if any(name == one.name for one in claims):
                raise InputError(f"{name!r} is given twice", where=f"{where}.name", hint="Name each machine once")
            memory_mib, vcpus = (_AMOUNT(item[key], f"{where}.{key}") for key in ("memory_mib", "vcpus"))
            known = None if identity is None else _uuid(identity, f"{where}.uuid")
            claims.append(Claim(name, memory_mib, vcpus, known, item.get("anti_affinity") or ()))
    mistakes.conclude()
    return claims


def claim(
    conn: VirConnect, wanted: list[Claim], decision: PlacementDecision, check_mode: bool
) -> tuple[bool, dict[str, str]]:
    """Take the names; whether something is, or would be, changed, and the claims."""
    domains = list_domains(conn)
    new = new_claims(wanted, domains)
    unmade = [one for one in wanted if one.name not in domains or is_claim(domains[one.name])]
    check_hypervisor(unmade, decision, conn, domains, Pools(conn), ahead=True)
    if check_mode:
        wanted = [one for one in wanted if one not in new]
    return bool(new), make_claims(conn, wanted, domains)


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Withdraw, claim, look."""
    params = module.params
    wanted = read_claims(params["machines"])
    decision = read_decision(params["decision"], "decision")
    writes = wanted or params["withdraw"]
    if writes:
        require_root("virt_claim", params["uri"])
    # Looking needs no lock, and must not wait for a run that is at work here.
    lock = hypervisor_lock("init", wait_seconds=params["lock_timeout"]) if writes else contextlib.nullcontext()
    with open_connection(params["uri"]) as conn:
        changed = False
        claims: dict[str, str] = {}
        with lock:
            if params["withdraw"]:
                changed = bool(withdraw_claims(conn, params["withdraw"], check_mode=module.check_mode))
            if wanted:
                made, claims = claim(conn, wanted, decision, module.check_mode)
                changed = changed or made
        return {"changed": changed, "claims": claims, "machines": look_for(conn, params["look_for"])}


def main() -> None:
    module = make_module(
        {
            "machines": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "memory_mib": {"type": "int", "required": True},
                    "vcpus": {"type": "int", "required": True},
                    "uuid": {"type": "str"},
                    "anti_affinity": {"type": "list", "elements": "str"},
                },
            },
            "decision": {"type": "dict", "default": {}},
            "withdraw": {"type": "dict", "default": {}},
            "look_for": {"type": "list", "elements": "str", "default": []},
            "lock_timeout": {"type": "int", "default": 300},
        }
    )
    finish(module, work)


if __name__ == "__main__":
    main()
