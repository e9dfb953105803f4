# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters purges, adoptions, clone_plan, disk_moves, export, restore_target and restore_twins.

With them playbooks decide by the answers of all hypervisors. Each is documented in a file of its name.
"""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.validators import yes_or_no
from ansible_collections.brine.virt.plugins.plugin_utils._cloning.plan import plan_clone
from ansible_collections.brine.virt.plugins.plugin_utils._filter_answer import answer, with_names
from ansible_collections.brine.virt.plugins.plugin_utils._placement.fleet import read_fleet
from ansible_collections.brine.virt.plugins.plugin_utils._placement.moves import plan_disk_moves, read_disk_pools
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import PlacementOptions, read_unseen
from ansible_collections.brine.virt.plugins.plugin_utils._reports.export import export_file
from ansible_collections.brine.virt.plugins.plugin_utils._reports.purges import choose_adoptions, choose_purges
from ansible_collections.brine.virt.plugins.plugin_utils._reports.results import restore_twins
from ansible_collections.brine.virt.plugins.plugin_utils._restore_target import restore_target, seen_elsewhere


def purges_filter(
    results: t.Any,
    names: t.Any,
    on: str | None = None,
    errors: str = "raise",
    hints: str = "module",
    homes: t.Any = None,
    unasked: t.Sequence[str] = (),
    last_seen: t.Any = None,
) -> dict[str, t.Any]:
    """What is to be done; see purges.yml."""

    def work() -> dict[str, t.Any]:
        return choose_purges(
            results, _names(names), on, hints=hints, homes=homes or {}, unasked=unasked, last_seen=last_seen
        )

    return answer(work, errors, "brine.virt.purges: ")


def adoptions_filter(
    results: t.Any, names: t.Any, on: str | None = None, errors: str = "raise", unasked: t.Sequence[str] = ()
) -> dict[str, t.Any]:
    """What is to be done; see adoptions.yml."""

    def work() -> dict[str, t.Any]:
        return choose_adoptions(results, _names(names), on, unasked=unasked)

    return answer(work, errors, "brine.virt.adoptions: ")


def export_filter(
    results: t.Any,
    names: t.Any = (),
    file: str = "vms.yml",
    old: str | None = None,
    force: t.Any = False,
    errors: str = "raise",
) -> dict[str, t.Any]:
    """The file; see export.yml."""

    def work() -> dict[str, t.Any]:
        return export_file(results, _names(names), file=file, old=old, force=yes_or_no(force, "force"))

    return answer(work, errors, "brine.virt.export: ")


def clone_plan_filter(
    results: t.Any, exports: t.Any, name: t.Any, new_name: t.Any, nics: t.Any = None, errors: str = "raise"
) -> dict[str, t.Any]:
    """The clone; see clone_plan.yml."""
    return answer(lambda: plan_clone(results, exports, name, new_name, nics), errors, "brine.virt.clone_plan: ")


def disk_moves_filter(hosts: t.Any, names: t.Any, disks: t.Any = None, errors: str = "raise") -> dict[str, t.Any]:
    """The machines; see disk_moves.yml."""

    def work() -> dict[str, t.Any]:
        wanted, single = list(map(str, _names(names))), read_disk_pools(disks)
        return plan_disk_moves(read_fleet(hosts, None, PlacementOptions()), wanted, single)

    return answer(work, errors, "brine.virt.disk_moves: ")


def restore_twins_filter(
    results: t.Any,
    target: str,
    name: str | None,
    uuid: str | None,
    last_seen: t.Any = None,
    unseen: t.Any = "refuse",
) -> list[str]:
    """A sentence for each hypervisor that has the machine, or may have it; see restore_twins.yml."""
    options = PlacementOptions(unseen=read_unseen(unseen, "virt_unseen"))
    found = restore_twins(results, target, name, uuid, unseen=options.places_unseen(str(name)))
    return found + seen_elsewhere(results, target, name, last_seen or {}, options)


def _names(names: t.Any) -> t.Sequence[str]:
    if isinstance(names, str) or not isinstance(names, (list, tuple)):
        raise InputError(f"{names!r} is not a list of names", where="names")
    return names


def restore_target_filter(
    shown: t.Any,
    hosts: t.Any,
    machines: t.Any,
    name: t.Any,
    disk: t.Any = None,
    backup: t.Any = None,
    settings: t.Any = None,
    policy: str = "spread",
    anti_affinity: str = "require",
    errors: str = "raise",
) -> dict[str, t.Any]:
    """Where it is restored; see restore_target.yml."""

    def work() -> dict[str, t.Any]:
        return restore_target(
            shown,
            hosts,
            machines,
            PlacementOptions(policy=policy, anti_affinity=anti_affinity),
            name=str(name),
            disk=disk,
            backup=None if backup == "latest" else backup,
            settings=settings,
        )

    return answer(work, errors, "brine.virt.restore_target: ")


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {
            "purges": purges_filter,
            "adoptions": adoptions_filter,
            "clone_plan": clone_plan_filter,
            "disk_moves": disk_moves_filter,
            "export": export_filter,
            "restore_target": restore_target_filter,
            **with_names({"restore_twins": restore_twins_filter}),
        }
