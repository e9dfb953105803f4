# SPDX-License-Identifier: GPL-3.0-or-later
"""One task or one role on some hosts, as a playbook would have it, and what a second run must say."""

from __future__ import annotations

import json
import typing as t

from ..cloud import Answer, Cloud, must
from ..moving import result_of


def module(
    cloud: Cloud, host: str, module_name: str, /, *words: str, **options: t.Any
) -> tuple[Answer, dict[str, t.Any]]:
    """A module of the collection on a host: what was said, and its result as data."""
    # An empty mapping is text to Ansible.
    answer = cloud.ansible(host, f"brine.virt.{module_name}", json.dumps(options) if options else "", *words)
    return answer, result_of(answer)


def have(cloud: Cloud, host: str, module_name: str, /, **options: t.Any) -> None:
    """A module changes something, and the second time nothing."""
    for changes in (True, False):
        answer, result = module(cloud, host, module_name, **options)
        must(answer.status == 0 and result["changed"] is changes, answer.text)


def refused(cloud: Cloud, host: str, module_name: str, words: str, /, **options: t.Any) -> None:
    """A module refuses it with these words, in check mode and without."""
    for mode in (["--check"], []):
        answer, result = module(cloud, host, module_name, *mode, **options)
        must(answer.status != 0 and words in result["msg"], f"not {words!r}: {answer.text}")


def role(cloud: Cloud, name: str, hosts: str, /, **variables: t.Any) -> Answer:
    """A role of the collection on hosts of the inventory."""
    play = {"hosts": hosts, "gather_facts": False, "become": True, "vars": variables, "roles": [f"brine.virt.{name}"]}
    path = cloud.build / f"role-{name}.json"
    path.write_text(json.dumps([play]), encoding="utf-8")
    return cloud.run(str(cloud.bin / "ansible-playbook"), *cloud.sources(live=False), str(path))


def role_well(cloud: Cloud, name: str, hosts: str, /, *, changes: bool, **variables: t.Any) -> Answer:
    """A role that has to end well, and to change something, or nothing."""
    answer = role(cloud, name, hosts, **variables)
    must(answer.status == 0 and (answer.recap("changed") > 0) is changes, answer.text)
    return answer


def pool_is_up(cloud: Cloud, host: str, pool: str) -> None:
    """libvirt has this storage pool for good, it runs, and starts with the host."""
    text = cloud.on(host, f"LC_ALL=C virsh pool-info {pool}")
    must("running" in text and "Autostart:      yes" in text and "Persistent:     yes" in text, text)
