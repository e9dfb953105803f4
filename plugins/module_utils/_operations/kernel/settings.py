# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan that gives a hypervisor's kernel the settings of a task: what differs now, and what a boot will do.

Values come before files: what the kernel refuses is in no file either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..._base.errors import ConflictError, HostError, InputError, Mistakes, UnsupportedError
from ..plan import Step
from .host import Host
from .spec import (
    BRIDGE_KEYS,
    KSM_FILE,
    KSM_RUN,
    KSM_UNIT,
    KVM_MODULES,
    KernelSpec,
    hugepages_folder,
    ksm_unit,
    lasting_files,
    mount_unit,
    same_words,
    size_name,
    sysctl_path,
)

# What is left to the host when pages are taken from its memory.
KEPT_KIB = 512 * 1024
# Services that turn KSM on and off by themselves; the first one runs, the other one has set it once at boot.
KSM_TUNER, KSM_SERVICE = "ksmtuned.service", "ksm.service"
_UNITS = "/etc/systemd/system"
_MOUNT_UNIT = re.compile(r"dev-hugepages[0-9]+[KMG]\.mount")


@dataclass
class KernelPlan:
    """Steps, what they change as text, and whether libvirt has to be restarted.

    notes: why there is less to do than one may think. warnings: what is not as asked for yet.
    """

    steps: list[Step] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    restarts_libvirt: bool = False


def plan_kernel(host: Host, wanted: KernelSpec, mistakes: Mistakes, machine: str) -> KernelPlan:
    """The plan; what cannot be done goes to ``mistakes``. machine: the architecture, as uname(1) names it."""
    plan = KernelPlan()
    _plan_sysctl(host, wanted, mistakes, plan)
    _plan_hugepages(host, wanted, mistakes, plan)
    _plan_ksm(host, wanted, mistakes, plan)
    _note_nested(host, wanted, mistakes, plan, machine)
    for path, text in lasting_files(wanted).items():
        with mistakes.noted():
            _plan_file(host, path, text, plan)
    return plan


def _plan_value(host: Host, path: str, name: str, value: str, plan: KernelPlan) -> None:
    """Set a value that is there and differs. name: what the user calls it."""
    before = host.value(path)
    if before is None or before == same_words(value):
        return
    plan.diff.append(_diff("running kernel", f"{name} = {before}\n", f"{name} = {value}\n"))
    plan.steps.append(
        Step(
            f"set {name} to {value} (it was {before})",
            lambda: host.set_value(path, value, name),
            lambda: host.put_back(path, before, name),
        )
    )


def _plan_file(host: Host, path: str, text: str | None, plan: KernelPlan) -> bool:
    """Put a file in place, or take it away; whether that is a change."""
    before = host.file(path)
    if before == text:
        return False
    if host.has_foreign(path):
        raise ConflictError(f"{path} is not from brine.virt", hint="It is left as it is. Move it away, or use it")
    plan.diff.append(_diff(path, before or "", text or ""))
    plan.steps.append(
        Step(
            f"{'remove' if text is None else 'write'} {path}",
            lambda: host.set_file(path, text),
            lambda: host.set_file(path, before),
        )
    )
    return True


def _diff(header: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": header, "after_header": header, "before": before, "after": after}


def _plan_sysctl(host: Host, wanted: KernelSpec, mistakes: Mistakes, plan: KernelPlan) -> None:
    for key, value in sorted(wanted.sysctl.items()):
        with mistakes.noted():
            if host.value(sysctl_path(key)) is None:
                raise InputError(
                    "the kernel has no such setting, or none that can be read",
                    where=f"sysctl.{key}",
                    hint="It may be in a module that is not loaded",
                )
            _plan_value(host, sysctl_path(key), key, value, plan)
    if wanted.bridge_netfilter is None:
        return
    for key in BRIDGE_KEYS:
        _plan_value(host, sysctl_path(key), key, str(int(wanted.bridge_netfilter)), plan)
    if host.value(sysctl_path(BRIDGE_KEYS[0])) is None:
        plan.notes.append(
            "bridge_netfilter: br_netfilter is not loaded, so nothing is filtered; it is set as it is loaded"
        )


def _plan_hugepages(host: Host, wanted: KernelSpec, mistakes: Mistakes, plan: KernelPlan) -> None:
    more_kib = 0
    mounts = host.hugepage_mounts() if wanted.hugepages else set[int]()
    known = {name for name in host.names("/sys/kernel/mm/hugepages") if name.startswith("hugepages-")}
    for kib, count in wanted.hugepages.items():
        where, folder = f"hugepages.{size_name(kib)}", hugepages_folder(kib)
        with mistakes.noted():
            if folder.rpartition("/")[2] not in known:
                sizes = sorted(int(name.partition("-")[2].removesuffix("kB")) for name in known)
                hint = f"It has {', '.join(map(size_name, sizes))}" if sizes else "It has none"
                raise UnsupportedError("the kernel has no pages of this size", where=where, hint=hint)
            total = host.number(f"{folder}/nr_hugepages")
            used = total - host.number(f"{folder}/free_hugepages") + host.number(f"{folder}/resv_hugepages")
            if count < used:
                raise InputError(
                    f"{count} is less than the {used} that machines use now", where=where, hint="Stop machines first"
                )
            more_kib += (count - total) * kib
            _plan_pages(host, f"{folder}/nr_hugepages", where, count, plan)
            if count and kib not in mounts:
                _plan_mount(host, kib, plan)
    with mistakes.noted():
        _plan_no_mounts(host, {mount_unit(size)[0] for size, count in wanted.hugepages.items() if count}, plan)
    with mistakes.noted():
        free_kib = max(0, host.memory_kib("MemAvailable") - KEPT_KIB)
        if more_kib > free_kib:
            raise InputError(
                f"they take {more_kib // 1024} MiB more than now, but only {free_kib // 1024} MiB can be had:"
                f" {KEPT_KIB // 1024} MiB of the free memory are left to the host",
                where="hugepages",
            )


def _plan_pages(host: Host, path: str, where: str, count: int, plan: KernelPlan) -> None:
    before = host.number(path)
    if before == count:
        return

    def apply() -> None:
        try:
            host.set_value(path, str(count), where)
        except HostError as exc:
            if isinstance(exc.__cause__, OSError):
                # It was not written at all.
                raise
            raise HostError(
                f"{exc.what}: its memory is used, or in pieces",
                hint="Nothing is changed. Run it again just after a boot, before machines run",
            ) from exc

    plan.diff.append(_diff("running kernel", f"{where} = {before}\n", f"{where} = {count}\n"))
    plan.steps.append(
        Step(
            f"set {where} to {count} (it was {before})",
            apply,
            lambda: host.put_back(path, str(before), where),
        )
    )


def _plan_mount(host: Host, kib: int, plan: KernelPlan) -> None:
    """Mount hugetlbfs for a size: libvirt uses only what is mounted, and looks for that as its daemon starts."""
    unit, text = mount_unit(kib)
    _plan_file(host, f"{_UNITS}/{unit}", text, plan)

    def apply() -> None:
        host.systemctl("daemon-reload")
        host.systemctl("enable", "--now", unit)

    plan.steps.append(
        Step(f"mount hugetlbfs with {unit}", apply, lambda: host.systemctl("disable", "--now", unit)),
    )
    plan.restarts_libvirt = True


def _plan_no_mounts(host: Host, needed: set[str], plan: KernelPlan) -> None:
    """Forget the units of ours that nobody needs now. What is mounted stays until a boot: a machine may use it."""
    for unit in host.names(_UNITS):
        path = f"{_UNITS}/{unit}"
        if _MOUNT_UNIT.fullmatch(unit) and unit not in needed and host.file(path) is not None:
            plan.steps.append(_disable_step(host, unit))
            _plan_file(host, path, None, plan)


def _disable_step(host: Host, unit: str) -> Step:
    return Step(f"disable {unit}", lambda: host.systemctl("disable", unit), lambda: host.systemctl("enable", unit))


def _plan_ksm(host: Host, wanted: KernelSpec, mistakes: Mistakes, plan: KernelPlan) -> None:
    is_there = host.value(KSM_RUN) is not None
    with mistakes.noted():
        before = host.file(KSM_FILE)
        if wanted.ksm and not is_there:
            raise UnsupportedError("the kernel cannot merge pages (no KSM)", where="ksm")
        if wanted.ksm is None or not is_there:
            _plan_no_unit(host, before, plan)
            return
        tuned = host.is_enabled(KSM_TUNER) or host.is_active(KSM_TUNER)
        if wanted.ksm and tuned:
            plan.notes.append(f"ksm: {KSM_TUNER} is on, and turns KSM on when memory is short")
            _plan_no_unit(host, before, plan)
            return
        if not wanted.ksm:
            _plan_no_services(host, plan)
        # 2 is off, too.
        if wanted.ksm or host.value(KSM_RUN) == "1":
            _plan_value(host, KSM_RUN, "ksm", str(int(wanted.ksm)), plan)
        _plan_file(host, KSM_FILE, ksm_unit(wanted.ksm), plan)
        if before is None or not host.is_enabled(KSM_UNIT):
            plan.steps.append(
                Step(
                    f"enable {KSM_UNIT}",
                    lambda: host.systemctl("enable", KSM_UNIT),
                    lambda: host.systemctl("disable", KSM_UNIT),
                )
            )


def _plan_no_unit(host: Host, before: str | None, plan: KernelPlan) -> None:
    if before is None:
        return
    plan.steps.append(_disable_step(host, KSM_UNIT))
    _plan_file(host, KSM_FILE, None, plan)


def _plan_no_services(host: Host, plan: KernelPlan) -> None:
    for unit in (KSM_TUNER, KSM_SERVICE):
        was_enabled, was_active = host.is_enabled(unit), host.is_active(unit)
        if was_enabled or was_active:
            plan.steps.append(_off_step(host, unit, was_enabled, was_active))


def _off_step(host: Host, unit: str, was_enabled: bool, was_active: bool) -> Step:
    def undo() -> None:
        for verb in ["enable"] * was_enabled + ["start"] * was_active:
            host.systemctl(verb, unit)

    return Step(f"stop and disable {unit}", lambda: host.systemctl("disable", "--now", unit), undo)


def _note_nested(host: Host, wanted: KernelSpec, mistakes: Mistakes, plan: KernelPlan, machine: str) -> None:
    if wanted.nested is None:
        return
    with mistakes.noted():
        if machine != "x86_64":
            raise UnsupportedError(f"on {machine} it is not a setting of a module", where="nested", hint="Leave it out")
    for name in KVM_MODULES:
        now = host.value(f"/sys/module/{name}/parameters/nested")
        if now is not None and (now in ("Y", "1")) is not wanted.nested:
            plan.warnings.append(
                f"nested: it stays {'off' if wanted.nested else 'on'} until {name} is loaded again, which takes a boot"
                " or a host without running machines"
            )
