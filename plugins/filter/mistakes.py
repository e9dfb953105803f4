# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter brine.virt.mistakes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mistakes
short_description: Collect the errors that check mode found on all hypervisors
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Collects the errors that M(brine.virt.virt_image) and M(brine.virt.virt_init) reported on all hypervisors in check
    mode, before anything is changed. The role P(brine.virt.virt_provision#role) uses it for that.
  - If several hypervisors report the same error, it is one sentence, preceded by the names of all of them.
  - Machines of several hypervisors that are to have the same volume of a shared pool
    (RV(brine.virt.virt_init#module:wanted)) are a mistake as well, unless all of them share it or read it.
positional: machines
options:
  _input:
    description:
      - By the name of each hypervisor, the registered result of a task with M(brine.virt.virt_image) in a loop over the
        names of images. Empty for one that was not asked.
    type: dict
    required: true
  machines:
    description:
      - By the name of each hypervisor, the registered result of a task with M(brine.virt.virt_init). Empty for one that
        was not asked.
    type: dict
    default: {}
  images:
    description: The images by name, as in the variable C(virt_images); unknown options are reported as mistakes.
    type: dict
    default: {}
  where:
    description: The name of O(images), as the user knows it. Empty for an image that was given on the command line.
    type: str
    default: virt_images
seealso:
  - module: brine.virt.virt_image
  - module: brine.virt.virt_init
"""

EXAMPLES = r"""
---
- name: Check that there are no mistakes
  ansible.builtin.assert:
    that: mistakes | length == 0
    fail_msg: "{{ mistakes | join('\n') }}"
  vars:
    mistakes: "{{ {'hv1': hostvars['hv1'].stored} | brine.virt.mistakes({'hv1': hostvars['hv1'].made}) }}"
"""

RETURN = r"""
_value:
  description: The mistakes, one sentence each, without duplicates.
  type: list
  elements: str
  sample:
    - "virt_images.debian.src: there is no file debian.qcow2 on the controller. For a file on the hypervisor, use path"
    - "hv1: virt_vms[0].nics[eth1]: there is no bridge 'dmz' on this hypervisor. Known: br0"
"""

import re
import typing as t
from collections.abc import Iterator, Mapping

from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.module_utils._base.errors import Mistakes
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import validators
from ansible_collections.brine.virt.plugins.plugin_utils._volumes.wanted import wanted_twice
from ansible_collections.brine.virt.plugins.plugin_utils._withhold import Withheld

_IMAGE_OPTIONS = ("checksum", "disk", "machine", "path", "src", "timeout", "url")
# What is wrong with these is found on the controller, and is the same wherever the image is to go.
_ON_THE_CONTROLLER = re.compile(r"src:")
_OPTION_FIRST = re.compile(rf"({'|'.join(_IMAGE_OPTIONS)}): ")


def mistakes_filter(
    stored: t.Any, machines: t.Any = None, images: t.Any = None, where: str = "virt_images"
) -> list[str]:
    """The mistakes; see RETURN."""
    for given in (stored, machines or {}, images or {}):
        if not isinstance(given, Mapping):
            raise AnsibleFilterError(f"brine.virt.mistakes: {given!r} is not a mapping")
    hosts_by_sentence: dict[str, list[str]] = {}
    found_on = [*_of_images(stored, where), *_of_machines(machines or {}), *wanted_twice(machines or {})]
    for host, sentence in found_on:
        hosts_by_sentence.setdefault(sentence, []).append(host)
    found = [
        f"{', '.join(hosts)}: {sentence}" if hosts != [""] * len(hosts) else sentence
        for sentence, hosts in hosts_by_sentence.items()
    ]
    # A sentence repeats what was written: an address, with a password in it, where a mapping should be.
    clean = Withheld({"images": images or {}}).cleaned_text
    return [clean(sentence) for sentence in [*_of_options(images or {}, where), *found]]


def _of_options(images: Mapping[str, t.Any], where: str) -> list[str]:
    """Options that no image has."""
    mistakes = Mistakes()
    for name, source in images.items():
        with mistakes.noted():
            validators.read_mapping(
                source,
                _place(where, validators.written(name)),
                {option: lambda value, _where: value for option in _IMAGE_OPTIONS},
            )
    return [line for error in mistakes.found for line in str(error).splitlines()]


def _of_images(answers: Mapping[str, t.Any], where: str) -> Iterator[tuple[str, str]]:
    """Hypervisor and sentence."""
    for host, answer in answers.items():
        for result in answer.get("results") or ([answer] if answer.get("unreachable") else []):
            if "image" not in result and result.get("msg"):
                place = _place(where, str(result.get("item", "")))
                for line in str(result["msg"]).splitlines():
                    joint = "." if _OPTION_FIRST.match(line) else ": "
                    yield "" if _ON_THE_CONTROLLER.match(line) else host, f"{place}{joint}{line}"


def _of_machines(answers: Mapping[str, t.Any]) -> Iterator[tuple[str, str]]:
    """Hypervisor and sentence."""
    for host, answer in answers.items():
        if "machines" not in answer and answer.get("msg"):
            for line in str(answer["msg"]).splitlines():
                yield host, line


def _place(where: str, name: str) -> str:
    return f"{where}.{name}" if where else "image"


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {"mistakes": mistakes_filter}
