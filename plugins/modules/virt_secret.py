#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: secrets that libvirt keeps."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_secret
short_description: Secrets of libvirt, such as the key of a Ceph user
version_added: "1.0.0"
description:
  - Defines and removes libvirt's secrets, and sets their values. Pools and machines name them where a storage, the
    encryption of a volume or the state of a TPM needs a key or a password.
  - Describe one by the options, or several in O(secrets).
  - No value appears in a result, a difference or a log, and none of the options is repeated there. This includes
    C(invocation), so that a value under a misspelt option is not shown either.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._lock
  - brine.virt._resources
  - brine.virt._root
  - brine.virt._uri
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Values are not shown. A difference says whether the value is set again.
  idempotent:
    support: partial
    details:
      - The value of a private secret cannot be read. With O(update_value=always) it is set each time, and this is a
        change.
options:
  name:
    description:
      - What pools and machines call the secret. libvirt calls it the name of the usage.
      - With O(usage=volume), it is the absolute path of the encrypted volume.
    type: str
  usage:
    description:
      - What the secret is for - a Ceph cluster (V(ceph)), an iSCSI target (V(iscsi)), an encrypted volume (V(volume)),
        the key of a TLS certificate (V(tls)), or the state of an emulated TPM (V(vtpm)).
      - Together with O(name) it says which secret is meant. Both are required.
    type: str
    choices: [ceph, iscsi, tls, volume, vtpm]
  state:
    description:
      - V(present), which is the default - the secret is defined.
      - V(absent) - it is removed with its value, which cannot be brought back. This is refused, with their names, while
        a pool, a machine (also in a snapshot or its saved state) or C(/etc/libvirt/qemu.conf) names it, and with
        O(usage=volume) while the volume exists.
    type: str
    choices: [present, absent]
  value:
    description:
      - The value, as text. Without O(value) and O(value_base64), the value of an existing secret stays as it is, and a
        new one has none yet. They cannot be given together.
    type: str
  value_base64:
    description:
      - The value in base64, for a value that is not text.
      - The key of a Ceph user, as C(ceph auth get-key) prints it, is base64. Give it here.
    type: str
  update_value:
    description:
      - V(always) - the value is set if it differs, and each time if it cannot be read. With O(usage=volume) and
        O(usage=vtpm), another value than the existing one is refused as the removal is, since what was encrypted with
        that one could not be opened again.
      - V(on_create) - the value is set only if the secret has none yet, which is looked at again right before.
      - The default is V(on_create) with O(usage=volume) and O(usage=vtpm), and V(always) with all others.
    type: str
    choices: [always, on_create]
  uuid:
    description: UUID of a new secret. By default a random one is chosen. An existing secret keeps its UUID.
    type: str
  description:
    description: What the secret is, for people. It is not secret.
    type: str
  ephemeral:
    description:
      - Whether libvirt keeps the secret only in memory, until its daemon stops. By default a new one is not.
    type: bool
  private:
    description:
      - Whether libvirt refuses to give back the value. By default that of a new one can be read by root
        and members of the group C(libvirt).
      - A private secret never becomes readable.
    type: bool
  secrets:
    description:
      - Several secrets. Each is a mapping of the options of this module, except O(secrets), O(uri) and O(lock_timeout).
        A task needs either this option or O(name).
    type: list
    elements: dict
seealso:
  - module: brine.virt.virt_pool
  - name: Secrets of libvirt
    description: What each usage means.
    link: https://libvirt.org/formatsecret.html
"""

EXAMPLES = r"""
---
- name: Keep the key of a Ceph user
  brine.virt.virt_secret:
    name: client.libvirt
    usage: ceph
    value_base64: "{{ vault_ceph_key }}"

- name: Keep the password for an iSCSI target, so that nobody can read it
  brine.virt.virt_secret:
    name: san
    usage: iscsi
    value: "{{ vault_chap_password }}"
    private: true
    update_value: on_create

- name: Remove a secret that nothing uses any more
  brine.virt.virt_secret:
    name: san
    usage: iscsi
    state: absent
"""

RETURN = r"""
secrets:
  description: Each secret as it is now, without its value; in check mode, as it would be.
  returned: always, unless the options are wrong or something stands in the way
  type: list
  elements: dict
  contains:
    name:
      description: Name of its use.
      type: str
      returned: always
      sample: client.libvirt
    present:
      description: Whether it is there now, also after something has failed.
      type: bool
      returned: always
      sample: true
    changed:
      description: Whether anything of it was changed and not rolled back.
      type: bool
      returned: always
      sample: true
    failed:
      description: Whether something has failed. What could be rolled back was.
      type: bool
      returned: always
      sample: false
    msg:
      description: What has failed, and what to do.
      type: str
      returned: when it failed
      sample: "cannot define the secret client.libvirt for ceph: internal error"
    actions:
      description: What was done, in order; for one that failed, what could not be rolled back.
      type: list
      elements: str
      returned: always
      sample: [define secret client.libvirt for ceph, set the value of secret client.libvirt for ceph]
    pending:
      description: What takes effect only later - what is still missing before the secret can be used.
      type: list
      elements: str
      returned: always
      sample: []
    usage:
      description: What it is for.
      type: str
      returned: when it is defined
      sample: ceph
    uuid:
      description: Its UUID. In check mode it is null for a secret that would be created, if no UUID is requested.
      type: str
      returned: when it is defined
      sample: 6ec2c9b7-2f4e-4a4e-9e05-2c8a6f0a1d11
    description:
      description: What it is, for people.
      type: str
      returned: when it is defined
      sample: Key of client.libvirt
    ephemeral:
      description: Whether it is only in memory.
      type: bool
      returned: when it is defined
      sample: false
    private:
      description: Whether its value cannot be read.
      type: bool
      returned: when it is defined
      sample: false
    value_state:
      description: V(set), V(not set), V(not readable), or V(set again) if this run has set the value.
      type: str
      returned: when it is defined
      sample: set again
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.secret import (
    ABSENT,
    ALWAYS,
    ON_CREATE,
    PRESENT,
    USAGES,
    VALUE_OPTIONS,
    read_secret,
)
from ansible_collections.brine.virt.plugins.module_utils._model.withheld import SecretOptions
from ansible_collections.brine.virt.plugins.module_utils._module import (
    answer_of_each,
    finish,
    make_module,
    require_root,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.resources import (
    GivenResources,
    carry_out,
    diff_of,
    plan_all,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.secrets.plan import (
    SecretPlanner,
    check_together,
    find_uuid,
)

# Those of one secret, which are checked by its own rules as well; without defaults, to tell what is named.
OWN_ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str"},
    "usage": {"type": "str", "choices": list(USAGES)},
    "state": {"type": "str", "choices": [PRESENT, ABSENT]},
    "value": {"type": "str", "no_log": True},
    "value_base64": {"type": "str", "no_log": True},
    # One of two words.
    "update_value": {"type": "str", "choices": [ALWAYS, ON_CREATE], "no_log": False},
    "uuid": {"type": "str"},
    "description": {"type": "str"},
    "ephemeral": {"type": "bool"},
    "private": {"type": "bool"},
}
ARGUMENTS: dict[str, dict[str, t.Any]] = {
    **OWN_ARGUMENTS,
    # With no_log, Ansible would blot out every word of it in the output, names and all. The values are kept out by
    # SecretOptions, wherever they stand.
    "secrets": {"type": "list", "elements": "dict", "no_log": False},
    "lock_timeout": {"type": "int", "default": 300},
}


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Plan all, act unless in check mode, and return the result for each."""
    params = module.params
    require_root("virt_secret", params["uri"], "secrets")
    specs = GivenResources.of(params, "secrets", list(OWN_ARGUMENTS)).read(read_secret)
    check_together(specs)
    with open_connection(params["uri"]) as conn:
        planner = SecretPlanner(conn, lock_seconds=params["lock_timeout"])
        results = plan_all(specs, planner.plan, planner.look)
        carry_out(results, check_mode=module.check_mode)
        shown = [result.as_result() for result in results]
        for spec, secret in zip(specs, shown):  # noqa: B905 - Python 3.9 has no strict
            if secret.get("uuid", "") is None and not module.check_mode:
                secret["uuid"] = find_uuid(conn, spec)
    return answer_of_each(module, shown, diff_of(results), key="secrets")


def main() -> None:
    finish(make_module(ARGUMENTS, secrets=SecretOptions(words=VALUE_OPTIONS)), work)


if __name__ == "__main__":
    main()
