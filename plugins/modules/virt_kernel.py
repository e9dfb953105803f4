#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: settings of a hypervisor's kernel, now and after each boot."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_kernel
short_description: Set what a hypervisor's kernel does for its machines
version_added: "1.0.0"
description:
  - Sets sysctls, the netfilter of bridges, KSM, huge pages and nested KVM, in the running kernel and in files of its
    own that have each boot do it again. The role P(brine.virt.virt_hypervisor#role) calls it.
  - An option that is left out leaves that setting unchanged. If an earlier task has set it, the files are
    removed, and the running kernel keeps the value until the host boots, as nobody knows what it was before.
  - Everything is checked before anything is changed, and a change that fails is rolled back with those before it.
  - No kernel module is loaded or unloaded, and no running machine is touched.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes.no_group
  - brine.virt._attributes
  - brine.virt._attributes.full
options:
  sysctl:
    description:
      - Values by sysctl, such as C(vm.swappiness), written as in C(sysctl.d). They are in
        C(/etc/sysctl.d/99-zz-brine-virt.conf), which a boot reads last.
      - A sysctl that the running kernel does not have is an error, as is a value that it refuses or changes.
      - One sysctl under two names, such as C(vm.swappiness) and C(vm/swappiness), is an error, as is one that another
        option sets.
    type: dict
    default: {}
  bridge_netfilter:
    description:
      - Whether packets that only pass a bridge go through the host's firewall (C(net.bridge.bridge-nf-call-iptables)
        and the same for ip6tables and arptables). With V(true) a firewall with a policy of drop, such as Docker's,
        cuts off machines.
      - These exist only while the kernel's module br_netfilter is loaded. If it is not, nothing is filtered, and a udev
        rule sets them when it is.
    type: bool
  ksm:
    description:
      - Whether the kernel merges equal pages of machines (KSM). It saves memory and takes time, and machines can
        measure what others have in memory.
      - With V(true), C(ksmtuned) is left to decide when, if it is on. With V(false), it and C(ksm.service) are
        stopped and disabled; leaving the option out later does not enable them again.
      - With V(false), nothing more is merged. What is merged stays so.
    type: bool
  hugepages:
    description:
      - How many huge pages there are, by their size, such as V(2M) or V(1G). On a host with NUMA the kernel spreads
        them evenly.
      - The memory is taken from the host at once. What the host does not have free is an error, and so are fewer
        pages than machines use. If the kernel cannot give all of them because its memory is in pieces, the task
        fails, and changes nothing.
      - For a size for which hugetlbfs is not mounted, it is, in C(/dev/hugepages1G) for instance. libvirt finds that
        when its daemon starts the next time, see RV(libvirt_restart).
      - A size that is left out keeps its pages until the host boots. V(0) gives them back at once.
    type: dict
    default: {}
  nested:
    description:
      - Whether machines can run machines with KVM themselves (the parameter C(nested) of kvm_intel and kvm_amd).
      - It takes effect when the module is loaded the next time, so mostly when the host boots. Until then the task
        warns.
    type: bool
seealso:
  - module: brine.virt.virt_host_info
"""

EXAMPLES = r"""
---
- name: Prefer the machines' memory to the cache, and reserve 8 GiB in huge pages
  brine.virt.virt_kernel:
    sysctl:
      vm.swappiness: 1
    bridge_netfilter: false
    ksm: false
    hugepages:
      2M: 4096
  become: true
  register: kernel

- name: Give the pages back
  brine.virt.virt_kernel:
    hugepages:
      2M: 0
  become: true
"""

RETURN = r"""
changes:
  description: What was done, in check mode what would be, in order.
  returned: success
  type: list
  elements: str
  sample: ["set vm.swappiness to 1 (it was 60)", "write /etc/sysctl.d/99-zz-brine-virt.conf"]
notes:
  description: Why less was done than requested.
  returned: success
  type: list
  elements: str
  sample: ["ksm: ksmtuned.service is on, and turns KSM on when memory is short"]
libvirt_restart:
  description:
    - Whether libvirt's daemon has to be restarted, so that it finds huge pages of another size. Machines keep running.
  returned: success
  type: bool
  sample: false
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.errors import Mistakes
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_plain_module
from ansible_collections.brine.virt.plugins.module_utils._operations.kernel.host import Host
from ansible_collections.brine.virt.plugins.module_utils._operations.kernel.settings import plan_kernel
from ansible_collections.brine.virt.plugins.module_utils._operations.kernel.spec import read_wanted
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import run


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Compare, and change what differs unless in check mode."""
    mistakes = Mistakes()
    wanted = read_wanted(module.params, mistakes)
    plan = plan_kernel(Host(), wanted, mistakes, os.uname().machine)
    mistakes.conclude()
    if not module.check_mode:
        run(plan.steps)
    for warning in plan.warnings:
        module.warn(warning)
    return {
        "changed": bool(plan.steps),
        "changes": [step.description for step in plan.steps],
        "notes": plan.notes,
        "libvirt_restart": plan.restarts_libvirt,
        "diff": plan.diff,
    }


def main() -> None:
    module = make_plain_module(
        {
            "sysctl": {"type": "dict", "default": {}},
            "bridge_netfilter": {"type": "bool"},
            "ksm": {"type": "bool"},
            "hugepages": {"type": "dict", "default": {}},
            "nested": {"type": "bool"},
        }
    )
    finish(module, work)


if __name__ == "__main__":
    main()
