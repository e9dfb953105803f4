# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of what every module has in common (module_utils/_module.py)."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  uri:
    description:
      - The libvirt connection to use, opened on the host that the task runs on.
      - See U(https://libvirt.org/uri.html) for the possible values.
    type: str
    default: qemu:///system
requirements:
  - libvirt-python (package C(python3-libvirt), on SUSE C(python3-libvirt-python)) on the host that the task runs on
  - lxml (package C(python3-lxml)) on the host that the task runs on
"""
