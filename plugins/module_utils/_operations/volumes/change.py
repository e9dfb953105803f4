# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes that a task names: all of them planned before the first is changed, then one after the other."""

from __future__ import annotations

import os
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlsplit

from ..._base.errors import ConflictError, InputError, Mistakes, UnsupportedError
from ..._host.images.source_file import SourceFile, look_at_source, source_from_controller
from ..._model.spec.resources.volume import VOLUME_RULES, VolumeSpec, read_volume_spec
from ..resources import GivenResources, ResourceResult, carry_out, diff_of
from .absent import plan_absent
from .found import look_again
from .present import plan_present
from .task import VolumePlan, VolumeTask

LIST = "volumes"


@dataclass(frozen=True)
class VolumeChanges:
    """What became of the volumes: their results, the difference, and the places of those whose content has yet to be
    sent, for which nothing was done to any of them."""

    results: Sequence[dict[str, t.Any]]
    diff: Sequence[dict[str, str]]
    needed: tuple[int, ...] = ()


def read_volumes(params: Mapping[str, t.Any]) -> list[VolumeSpec]:
    """The volumes of a task's options. Raises InputError for everything that is wrong with them."""
    specs = GivenResources.of(params, LIST, tuple(VOLUME_RULES)).read(read_volume_spec)
    mistakes, places = Mistakes(), dict[tuple[str, str], str]()
    for spec in specs:
        first = places.setdefault((spec.pool, spec.name), spec.given.place)
        if first != spec.given.place:
            with mistakes.noted():
                raise InputError(f"is the same volume as {first}", where=spec.given.place)
    mistakes.conclude()
    return specs


def change_volumes(
    specs: Sequence[VolumeSpec],
    task: VolumeTask,
    *,
    uri: str,
    sent: Mapping[str, t.Any] | None,
    only_asked: bool,
    check_mode: bool,
) -> VolumeChanges:
    """Plan all, and carry it out.

    sent, only_asked: see source_file.py. Raises VirtError for everything that stands in the way of any.
    """
    mistakes, sources = Mistakes(), dict[str, t.Optional[SourceFile]]()
    for index, spec in enumerate(specs):
        with mistakes.noted():
            said = (sent or {}).get(str(index))
            sources[spec.given.place] = _read_source(spec, task, uri, said) if spec.present else None
    # After the files, which may take minutes to read.
    view, plans = task.look(), list[VolumePlan]()
    for spec in specs:
        with mistakes.noted():
            if spec.given.place not in sources:
                view.pools.get(spec.pool, spec.given.at("pool"))
            elif spec.present:
                plans.append(plan_present(spec, sources[spec.given.place], view, task))
            else:
                plans.append(plan_absent(spec, view, task))
    mistakes.conclude()
    _require_kept_sources(specs, plans)
    needed = tuple(index for index, plan in enumerate(plans) if plan.needs_file)
    if not only_asked and not check_mode:
        plans = [_refuse_unsent(spec, plan) for spec, plan in zip(specs, plans)]  # noqa: B905 - Python 3.9 has no strict
    results = [
        ResourceResult(plan.plan, plan.refusal, look=partial(look_again, spec, task))
        for spec, plan in zip(specs, plans)  # noqa: B905 - as above
    ]
    refused = [plan.plan.name for plan in plans if plan.refusal is not None]
    waits = bool(needed) and only_asked and not check_mode
    if refused:
        _note_not_done(results, refused)
    elif not waits:
        carry_out(results, check_mode=check_mode)
    shown = [_as_result(*each) for each in zip(specs, plans, results)]  # noqa: B905 - as above
    return VolumeChanges(shown, diff_of(results), needed if waits and not refused else ())


def _require_kept_sources(specs: Sequence[VolumeSpec], plans: Sequence[VolumePlan]) -> None:
    """Raise ConflictError for a file that is the content of one volume, and that the task deletes as another.

    Whichever comes first: where the copy fails, the other volumes go on, and its content would be nowhere any more.
    """
    mistakes = Mistakes()
    for spec in specs:
        for plan in plans if spec.present and spec.path is not None else ():
            if plan.loses is not None and spec.path is not None and _is_same_file(spec.path, plan.loses):
                with mistakes.noted():
                    raise ConflictError(
                        f"{spec.path} is volume {plan.plan.name}, which this task deletes or replaces",
                        where=spec.where_source,
                        hint="Copy it in one task, and delete or replace it in a later one",
                    )
    mistakes.conclude()


def _is_same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        # The other one is no file of this host, such as a volume on network storage.
        return False


def _refuse_unsent(spec: VolumeSpec, plan: VolumePlan) -> VolumePlan:
    """Nothing may be deleted for a file that is not here: sending takes long, and the volume was right before it."""
    if not plan.needs_file or plan.refusal is not None:
        return plan
    refusal = ConflictError(
        f"volume {spec.name} of pool {spec.pool} has changed since this run looked, so that {spec.source} was not sent",
        where=spec.where_source,
        hint="Run it again if it is to get that content",
    )
    return replace(plan, refusal=refusal, plan=replace(plan.plan, after=plan.plan.before, steps=()), loses=None)


def _note_not_done(results: Sequence[ResourceResult], refused: Sequence[str]) -> None:
    for result in results:
        if result.error is None and result.plan.steps:
            result.error = ConflictError(f"nothing was done to it, as {', '.join(refused)} cannot be done")


def _as_result(spec: VolumeSpec, plan: VolumePlan, result: ResourceResult) -> dict[str, t.Any]:
    empty = {"path": None, "format": None, "size_bytes": None}
    return {**empty, **result.as_result(), "pool": spec.pool, **plan.as_result()}


def _read_source(spec: VolumeSpec, task: VolumeTask, uri: str, said: t.Any) -> SourceFile | None:
    if spec.src is not None:
        if not isinstance(said, Mapping):
            raise UnsupportedError(
                "the controller has not sent the file",
                where=spec.where_source,
                hint="Call the module in a task by its full name, brine.virt.virt_volume",
            )
        return source_from_controller(said)
    if spec.path is None:
        return None
    parts = urlsplit(uri)
    if parts.hostname or parts.scheme.partition("+")[2] not in ("", "unix"):
        raise UnsupportedError(
            f"files of {parts.hostname or uri} cannot be read from here",
            where=spec.where_source,
            hint="Run the task on the hypervisor itself",
        )
    tell = task.progress(spec.name)
    return look_at_source(
        spec.path,
        spec.where_source,
        checksum=spec.checksum,
        where_checksum=spec.given.at("checksum"),
        on_progress=tell,
    )
