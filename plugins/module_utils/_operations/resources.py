# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools, networks, volumes and secrets as data: one of them or a list, all planned before the first is changed."""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .._base.errors import InputError, Mistakes, VirtError, as_virt_error
from .._model.spec.fields.given import GivenOptions
from .._model.yaml_text import yaml_diff
from .plan import Step, run

Spec = t.TypeVar("Spec")


@dataclass(frozen=True)
class ResourcePlan:
    """What one of them is, what it is to be, and the steps from the one to the other.

    before, after: in the words of the options, with what the result shows of it; None where it is not there. pending:
    in words, what of it takes effect only later, and when. where: its place in the options.
    """

    name: str
    before: Mapping[str, t.Any] | None
    after: Mapping[str, t.Any] | None
    steps: tuple[Step, ...] = ()
    pending: tuple[str, ...] = ()
    where: str | None = None


@dataclass
class ResourceResult:
    """What became of one.

    look: what it is now, as in ResourcePlan.before. done: whether all its steps were taken, or would be in check mode.
    Of one that failed, kept: the steps that were taken and cannot be rolled back; left: those whose rolling back has
    failed; now: what look said, or before where it could not be asked; unseen: why, then.
    """

    plan: ResourcePlan
    error: VirtError | None = None
    look: Callable[[], Mapping[str, t.Any] | None] | None = None
    done: bool = False
    kept: list[Step] = field(default_factory=list)
    left: list[Step] = field(default_factory=list)
    now: Mapping[str, t.Any] | None = field(init=False)
    unseen: VirtError | None = None

    def __post_init__(self) -> None:
        self.now = self.plan.before

    def fail(self, error: Exception) -> None:
        """It has failed, and has been rolled back as far as that goes: look what is there now."""
        self.error = as_virt_error(error)
        try:
            if self.look is not None:
                self.now = self.look()
        except Exception as exc:  # the first error is the one that counts
            self.unseen = as_virt_error(exc)

    @property
    def changed(self) -> bool:
        """Whether something was changed, or would be in check mode. What fails is rolled back."""
        return bool(self.plan.steps if self.done else self.kept or self.left)

    def as_result(self) -> dict[str, t.Any]:
        """In the words of a module's result."""
        plan = self.plan
        shown = plan.after if self.done else self.now
        result: dict[str, t.Any] = {
            **(shown or {}),
            "name": plan.name,
            "present": shown is not None,
            "changed": self.changed,
            "failed": self.error is not None,
            "actions": [step.description for step in (plan.steps if self.done else (*self.kept, *self.left))],
            "pending": list(plan.pending) if self.done else [],
        }
        if self.error is not None:
            kept = "; ".join(step.description for step in self.kept)
            stays = f". Done before that, and not rolled back: {kept}" if kept else ""
            unseen = f". What is there now could not be seen: {self.unseen}" if self.unseen else ""
            result["msg"] = f"{self.error}{stays}{unseen}"
        return result


@dataclass(frozen=True)
class GivenResources:
    """The options of each that a task names, in order."""

    items: tuple[GivenOptions, ...] = field(default_factory=tuple)

    @classmethod
    def of(cls, params: Mapping[str, t.Any], list_option: str, own: Sequence[str]) -> GivenResources:
        """From a module's options: those of one, or those of several in a list.

        list_option: the option with the list; own: the options that describe one. Raises InputError unless exactly one
        of the two is given, and for what is no mapping.
        """
        given = {word: params[word] for word in own if params.get(word) is not None}
        listed = params.get(list_option)
        if listed is None:
            if "name" not in given:
                raise InputError("is missing", where="name", hint=f"Give the name of one, or several in {list_option}")
            return cls((GivenOptions.of(given, ""),))
        if given:
            words = ", ".join(sorted(given))
            raise InputError(
                f"{list_option} and {words} are given together", hint=f"Put the latter into an item of {list_option}"
            )
        mistakes = Mistakes()
        for index, item in enumerate(listed):
            if not isinstance(item, Mapping):
                with mistakes.noted():
                    raise InputError(f"{item!r} is not a mapping", where=f"{list_option}[{index}]")
        mistakes.conclude()
        return cls(tuple(GivenOptions.of(item, f"{list_option}[{index}]") for index, item in enumerate(listed)))

    def read(self, reader: Callable[[GivenOptions], Spec]) -> list[Spec]:
        """A spec of each. Raises InputError for everything that is wrong in any of them."""
        specs, mistakes = [], Mistakes()
        for item in self.items:
            with mistakes.noted():
                specs.append(reader(item))
        mistakes.conclude()
        return specs


def plan_all(
    specs: Sequence[Spec],
    plan: Callable[[Spec], ResourcePlan],
    look: Callable[[Spec], Mapping[str, t.Any] | None] | None = None,
) -> list[ResourceResult]:
    """A plan of each, before anything is changed. look: what one is now, as in ResourcePlan.before. Raises VirtError
    for everything that stands in the way of any."""
    results, mistakes = [], Mistakes()
    for spec in specs:
        with mistakes.noted():
            results.append(ResourceResult(plan(spec), look=None if look is None else functools.partial(look, spec)))
    mistakes.conclude()
    return results


def carry_out(results: Sequence[ResourceResult], *, check_mode: bool) -> None:
    """Take the steps of each, in order. What fails is rolled back and says so, and the others go on."""
    for result in results:
        try:
            if not check_mode:
                run([_noted(step, result) for step in result.plan.steps])
            result.done = True
        except Exception as exc:  # whatever it is, it is not the others' fault
            result.fail(exc)


def _noted(step: Step, result: ResourceResult) -> Step:
    """The same step, which its result knows of once it is taken, unless it is rolled back."""
    undo = step.undo

    def apply() -> None:
        step.apply()
        if undo is None:
            result.kept.append(step)

    def roll_back() -> None:
        if undo is None:
            return
        try:
            undo()
        except Exception:
            result.left.insert(0, step)
            raise

    return replace(step, apply=apply, undo=None if undo is None else roll_back)


def diff_of(results: Sequence[ResourceResult]) -> list[dict[str, str]]:
    """For diff mode, what was changed."""
    return [
        yaml_diff(result.plan.name, result.plan.before, result.plan.after)
        for result in results
        if result.changed and result.done
    ]
