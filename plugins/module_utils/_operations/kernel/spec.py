# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task asks of a hypervisor's kernel, and the files that have a boot do it again. Values only."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..._base.errors import InputError, Mistakes

# sysctl.d(5): of two files that set one key the last by name counts. 99-sysctl.conf is Debian's /etc/sysctl.conf.
SYSCTL_FILE = "/etc/sysctl.d/99-zz-brine-virt.conf"
BRIDGE_FILE = "/etc/udev/rules.d/99-brine-virt-bridge.rules"
HUGEPAGES_FILE = "/etc/tmpfiles.d/brine-virt-hugepages.conf"
NESTED_FILE = "/etc/modprobe.d/zz-brine-virt.conf"
KSM_UNIT = "brine-virt-ksm.service"
KSM_FILE = f"/etc/systemd/system/{KSM_UNIT}"
KSM_RUN = "/sys/kernel/mm/ksm/run"
# They exist only while the module br_netfilter is loaded. Linux, Documentation/networking/ip-sysctl.rst.
BRIDGE_KEYS = tuple(f"net.bridge.bridge-nf-call-{what}" for what in ("arptables", "ip6tables", "iptables"))
KVM_MODULES = ("kvm_intel", "kvm_amd")
MARK = "# brine.virt"
# Both are the number of pages of the default size. Linux, Documentation/admin-guide/mm/hugetlbpage.rst.
_PAGES_KEYS = ("vm.nr_hugepages", "vm.nr_hugepages_mempolicy")

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_@:/.+-]*")
_SIZE = re.compile(r"([1-9][0-9]{0,8}) ?([KMG])(?:iB|B)?")
_KIB = {"K": 1, "M": 1024, "G": 1024 * 1024}
_MOST_PAGES = 10**9


@dataclass(frozen=True)
class KernelSpec:
    """What is asked for; None, and empty mappings, leave a thing as the host has it.

    sysctl: texts by key. hugepages: how many, by their size in KiB.
    """

    sysctl: t.Mapping[str, str]
    bridge_netfilter: bool | None
    ksm: bool | None
    hugepages: t.Mapping[int, int]
    nested: bool | None


def same_words(text: str) -> str:
    """A value as it is compared: the kernel puts tabs between numbers, people put blanks."""
    return " ".join(text.split())


def sysctl_path(key: str) -> str:
    """The file of a key. As in sysctl.d(5): if the first separator is a slash, dots and slashes are what they are."""
    first = re.search(r"[./]", key)
    swapped = key.translate(str.maketrans("./", "/.")) if first is not None and first[0] == "." else key
    return f"/proc/sys/{swapped}"


def size_kib(text: str) -> int:
    """A size of pages, such as 2M, 2MiB or 1G, in KiB. Raises InputError."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise InputError("this is not a page size", where=f"hugepages.{text}", hint="One is 2M or 1G")
    return int(found[1]) * _KIB[found[2]]


def hugepages_folder(kib: int) -> str:
    """The kernel's folder of pages of this size."""
    return f"/sys/kernel/mm/hugepages/hugepages-{kib}kB"


def size_name(kib: int) -> str:
    """A size of pages in the largest unit, as the mount option ``pagesize`` takes it: 2M, 1G."""
    for unit in ("G", "M"):
        if kib % _KIB[unit] == 0:
            return f"{kib // _KIB[unit]}{unit}"
    return f"{kib}K"


def read_wanted(params: t.Mapping[str, t.Any], mistakes: Mistakes) -> KernelSpec:
    """What the options of virt_kernel ask for. What is wrong in them goes to ``mistakes``, and is left out."""
    sysctl: dict[str, str] = {}
    for key, value in (params["sysctl"] or {}).items():
        with mistakes.noted():
            name = _key(key)
            same = next((other for other in sysctl if sysctl_path(other) == sysctl_path(name)), None)
            if same is not None:
                raise InputError(
                    f"this is the same sysctl as {same}", where=f"sysctl.{name}", hint="Leave one of them out"
                )
            sysctl[name] = _value(key, value)
    hugepages: dict[int, int] = {}
    for size, count in (params["hugepages"] or {}).items():
        with mistakes.noted():
            kib = size_kib(str(size))
            if kib in hugepages:
                raise InputError("this size is there twice", where=f"hugepages.{size}")
            hugepages[kib] = _count(size, count)
    _refuse_two_masters(sysctl, params, mistakes)
    return KernelSpec(sysctl, params["bridge_netfilter"], params["ksm"], hugepages, params["nested"])


def _key(key: t.Any) -> str:
    text = str(key)
    if not _KEY.fullmatch(text) or ".." in text or "//" in text or not re.search(r"[./]", text):
        raise InputError("this is not the name of a sysctl", where=f"sysctl.{text}", hint="One is vm.swappiness")
    return text


def _value(key: str, value: t.Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    text = value.strip() if isinstance(value, str) else str(value)
    if not isinstance(value, (str, int)) or not text or not text.isprintable():
        raise InputError(f"{value!r} is not a number or a text of one line", where=f"sysctl.{key}")
    return text


def _count(size: t.Any, count: t.Any) -> int:
    text = str(count)
    if isinstance(count, bool) or not text.isascii() or not text.isdigit() or int(text) > _MOST_PAGES:
        raise InputError(f"{count!r} is not a number of pages", where=f"hugepages.{size}")
    return int(text)


def _refuse_two_masters(sysctl: t.Mapping[str, str], params: t.Mapping[str, t.Any], mistakes: Mistakes) -> None:
    masters: dict[str, str] = {}
    if params["bridge_netfilter"] is not None:
        masters.update((sysctl_path(key), "bridge_netfilter") for key in BRIDGE_KEYS)
    if params["hugepages"]:
        masters.update((sysctl_path(key), "hugepages") for key in _PAGES_KEYS)
    for key in sysctl:
        with mistakes.noted():
            if sysctl_path(key) in masters:
                raise InputError(f"this is what {masters[sysctl_path(key)]} sets too", where=f"sysctl.{key}")


def lasting_files(wanted: KernelSpec) -> dict[str, str | None]:
    """The text of each file that has a boot do it again; None where there is nothing to do, and it is to go.

    They begin with MARK, so that a file of somebody else's is never taken for ours.
    """
    bridge = wanted.bridge_netfilter
    sysctl = [f"{key} = {value}" for key, value in sorted(wanted.sysctl.items())]
    # With a hyphen, a key that there is not yet is no error.
    sysctl += [f"-{key} = {int(bridge)}" for key in BRIDGE_KEYS] if bridge is not None else []
    pages = [f"w {hugepages_folder(size)}/nr_hugepages - - - - {count}" for size, count in wanted.hugepages.items()]
    nested = [] if wanted.nested is None else [f"options {name} nested={int(wanted.nested)}" for name in KVM_MODULES]
    # From the examples of sysctl.d(5).
    rule = 'ACTION=="add", SUBSYSTEM=="module", KERNEL=="br_netfilter", RUN+="/usr/lib/systemd/systemd-sysctl'
    return {
        SYSCTL_FILE: _text(sysctl),
        BRIDGE_FILE: _text([] if bridge is None else [f'{rule} --prefix=/net/bridge"']),
        HUGEPAGES_FILE: _text(pages),
        NESTED_FILE: _text(nested),
    }


def _text(lines: t.Sequence[str]) -> str | None:
    return "\n".join([f"{MARK}: written by virt_kernel.", *lines, ""]) if lines else None


def ksm_unit(ksm: bool) -> str:
    """The unit that turns KSM on or off at boot.

    It is no file of tmpfiles.d, because Ubuntu's qemu-kvm.service turns KSM on after those have been read.
    """
    lines = [
        "[Unit]",
        "Description=Set whether the kernel merges equal pages (KSM)",
        "After=ksm.service qemu-kvm.service",
        f"ConditionPathExists={KSM_RUN}",
        "",
        "[Service]",
        "Type=oneshot",
        f"ExecStart=/bin/sh -c 'echo {int(ksm)} >{KSM_RUN}'",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return _text(lines) or ""


def mount_unit(kib: int) -> tuple[str, str]:
    """The name and the text of the unit that mounts hugetlbfs for pages of a size, for libvirt to find it.

    systemd's own dev-hugepages.mount is for the default size only.
    """
    name = size_name(kib)
    lines = [
        "[Unit]",
        f"Description=Huge pages of {name}",
        "DefaultDependencies=no",
        "Before=sysinit.target",
        f"ConditionPathExists={hugepages_folder(kib)}",
        "",
        "[Mount]",
        "What=hugetlbfs",
        f"Where=/dev/hugepages{name}",
        "Type=hugetlbfs",
        f"Options=nosuid,nodev,pagesize={name}",
        "",
        "[Install]",
        "WantedBy=sysinit.target",
    ]
    return f"dev-hugepages{name}.mount", _text(lines) or ""
