# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a kernel, on a folder with files like those of /proc and /sys.

A script stands in the place of systemctl. What only a kernel does, refusing a value or making less of it, is done by
links: to a value of this kernel that nobody can write, and to /dev/null, which gives nothing back.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, Mistakes, VirtError
from ansible_collections.brine.virt.plugins.module_utils._operations.kernel.host import Host
from ansible_collections.brine.virt.plugins.module_utils._operations.kernel.settings import KernelPlan, plan_kernel
from ansible_collections.brine.virt.plugins.module_utils._operations.kernel.spec import read_wanted, sysctl_path
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import run

SYSCTL = "etc/sysctl.d/99-zz-brine-virt.conf"
PAGES = "sys/kernel/mm/hugepages/hugepages-2048kB"
GIGA = "sys/kernel/mm/hugepages/hugepages-1048576kB"
TMPFILES = "etc/tmpfiles.d/brine-virt-hugepages.conf"
KSM_UNIT = "etc/systemd/system/brine-virt-ksm.service"
BRIDGE = "proc/sys/net/bridge/bridge-nf-call-"
SYSTEMCTL = """#!/bin/sh
# Units that are enabled or active are files of that name.
case $1 in
is-enabled) test -e "$UNITS/$2.enabled" && echo enabled || { echo disabled; exit 1; } ;;
is-active) test -e "$UNITS/$2.active" && echo active || { echo inactive; exit 3; } ;;
*)
  echo "$@" >>"$UNITS/done"
  test ! -e "$UNITS/refuse" || { echo it will not >&2; exit 1; }
  for unit; do :; done
  case "$1 $2" in
  "disable --now") rm -f "$UNITS/$unit.enabled" "$UNITS/$unit.active" ;;
  disable*) rm -f "$UNITS/$unit.enabled" ;;
  "enable --now") touch "$UNITS/$unit.enabled" "$UNITS/$unit.active" ;;
  enable*) touch "$UNITS/$unit.enabled" ;;
  start*) touch "$UNITS/$unit.active" ;;
  esac ;;
esac
"""


class Kernel:
    """A host in a folder."""

    def __init__(self, place: Path) -> None:
        self.root = place / "root"
        self.units = place / "units"
        self.units.mkdir()
        (place / "systemctl").write_text(SYSTEMCTL)
        (place / "systemctl").chmod(0o755)
        self.has("proc/sys/vm/swappiness", "60")
        self.has("proc/sys/kernel/printk", "4\t4\t1\t7")
        self.has("proc/sys/net/ipv4/conf/eth0.1/forwarding", "0")
        self.has("sys/kernel/mm/ksm/run", "0")
        self.has("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    8388608 kB\nHugepagesize:       2048 kB")
        self.has("proc/self/mounts", "hugetlbfs /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0")
        self.has("sys/module/kvm_intel/parameters/nested", "Y")
        for folder in (PAGES, GIGA):
            for name in ("nr", "free", "resv"):
                self.has(f"{folder}/{name}_hugepages", "0")

    def has(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(f"{text}\n")

    def text(self, path: str) -> str:
        return (self.root / path).read_text().strip()

    def there(self, path: str) -> bool:
        return (self.root / path).exists()

    def all(self) -> dict[str, str]:
        return {str(path): path.read_text() for path in self.root.rglob("*") if path.is_file()}

    def plan(self, machine: str = "x86_64", **options: t.Any) -> KernelPlan:
        params = {"sysctl": {}, "bridge_netfilter": None, "ksm": None, "hugepages": {}, "nested": None, **options}
        mistakes = Mistakes()
        plan = plan_kernel(Host(str(self.root)), read_wanted(params, mistakes), mistakes, machine)
        mistakes.conclude()
        return plan

    def set(self, **options: t.Any) -> KernelPlan:
        """Set, and see that a second run has nothing to do."""
        plan = self.plan(**options)
        run(plan.steps)
        again = self.plan(**options)
        assert [step.description for step in again.steps] == []
        assert again.diff == []
        return plan

    def done(self) -> list[str]:
        path = self.units / "done"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    found = Kernel(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("UNITS", str(found.units))
    return found


def test_nothing_asked_for_is_nothing_done(kernel: Kernel) -> None:
    assert kernel.set().steps == []
    assert kernel.done() == []


def test_a_sysctl_is_set_now_and_at_boot_and_forgotten_again(kernel: Kernel) -> None:
    plan = kernel.set(sysctl={"vm.swappiness": 10, "kernel.printk": "3 4 1 7", "net/ipv4/conf/eth0.1/forwarding": True})
    assert kernel.text("proc/sys/vm/swappiness") == "10"
    assert kernel.text("proc/sys/kernel/printk") == "3 4 1 7"
    assert kernel.text("proc/sys/net/ipv4/conf/eth0.1/forwarding") == "1"
    assert kernel.text(SYSCTL).splitlines()[1:] == [
        "kernel.printk = 3 4 1 7",
        "net/ipv4/conf/eth0.1/forwarding = 1",
        "vm.swappiness = 10",
    ]
    assert {
        "before_header": "running kernel",
        "after_header": "running kernel",
        "before": "vm.swappiness = 60\n",
        "after": "vm.swappiness = 10\n",
    } in plan.diff
    kernel.set()
    assert not kernel.there(SYSCTL)
    assert kernel.text("proc/sys/vm/swappiness") == "10"


def test_a_value_that_somebody_else_has_changed_is_set_again(kernel: Kernel) -> None:
    kernel.set(sysctl={"vm.swappiness": 10})
    kernel.has("proc/sys/vm/swappiness", "60")
    assert [step.description for step in kernel.set(sysctl={"vm.swappiness": 10}).steps] == [
        "set vm.swappiness to 10 (it was 60)"
    ]


def test_the_separators_of_a_key() -> None:
    assert sysctl_path("net.ipv4.conf.eth0/1.forwarding") == "/proc/sys/net/ipv4/conf/eth0.1/forwarding"
    assert sysctl_path("net/ipv4/conf/eth0.1/forwarding") == "/proc/sys/net/ipv4/conf/eth0.1/forwarding"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"sysctl": {"vm.swappiness": 10, "vm/swappiness": 60}},
            "sysctl.vm/swappiness: this is the same sysctl as vm.swappiness. Leave one of them out",
        ),
        (
            {"sysctl": {"vm.nr_hugepages_mempolicy": 5}, "hugepages": {"2M": 8}},
            "sysctl.vm.nr_hugepages_mempolicy: this is what hugepages sets too",
        ),
    ],
)
def test_one_sysctl_has_one_value(kernel: Kernel, options: dict[str, t.Any], said: str) -> None:
    """Otherwise each run sets both, one after the other."""
    kernel.has("proc/sys/vm/nr_hugepages_mempolicy", "0")
    with pytest.raises(VirtError) as raised:
        kernel.plan(**options)
    assert str(raised.value) == said


def test_all_mistakes_are_said_at_once_and_nothing_is_changed(kernel: Kernel) -> None:
    before = kernel.all()
    options: dict[str, t.Any] = {
        "sysctl": {
            "vm.nonsense": 1,
            "vm.swappiness": [1],
            "../vm.swappiness": 1,
            "kernel.printk": "1\nvm.x = 2",
            "vm.nr_hugepages": 3,
        },
        "hugepages": {"3M": 1, "2X": 1, "2M": -1, "1G": 9, "1024M": 1},
    }
    with pytest.raises(VirtError) as raised:
        kernel.plan(**options)
    said = str(raised.value).splitlines()
    unknown = "the kernel has no such setting, or none that can be read. It may be in a module that is not loaded"
    assert said == [
        "sysctl.vm.swappiness: [1] is not a number or a text of one line",
        "sysctl.../vm.swappiness: this is not the name of a sysctl. One is vm.swappiness",
        "sysctl.kernel.printk: '1\\nvm.x = 2' is not a number or a text of one line",
        "hugepages.2X: this is not a page size. One is 2M or 1G",
        "hugepages.2M: -1 is not a number of pages",
        "hugepages.1024M: this size is there twice",
        "sysctl.vm.nr_hugepages: this is what hugepages sets too",
        f"sysctl.vm.nonsense: {unknown}",
        f"sysctl.vm.nr_hugepages: {unknown}",
        "hugepages.3M: the kernel has no pages of this size. It has 2M, 1G",
        "hugepages: they take 9216 MiB more than now, but only 7680 MiB can be had: 512 MiB of the free memory are left"
        " to the host",
    ]
    assert kernel.all() == before


def test_what_the_kernel_refuses_takes_the_rest_back(kernel: Kernel) -> None:
    before = kernel.all()
    # As an immutable value: it can be read, and not written.
    (kernel.root / "proc/sys/vm/zone").symlink_to("/proc/sys/kernel/ostype")
    with pytest.raises(HostError, match=r"^vm\.zone: the kernel refuses 1: [^:]*$"):
        run(kernel.plan(sysctl={"vm.swappiness": 10, "vm.zone": 1}).steps)
    (kernel.root / "proc/sys/vm/zone").unlink()
    assert kernel.all() == before


def test_bridges_are_not_filtered_also_when_the_module_comes_later(kernel: Kernel) -> None:
    plan = kernel.set(bridge_netfilter=False)
    assert plan.notes == [
        "bridge_netfilter: br_netfilter is not loaded, so nothing is filtered; it is set as it is loaded"
    ]
    assert kernel.text(SYSCTL).splitlines()[1:] == [
        f"-net.bridge.bridge-nf-call-{what} = 0" for what in ("arptables", "ip6tables", "iptables")
    ]
    assert "--prefix=/net/bridge" in kernel.text("etc/udev/rules.d/99-brine-virt-bridge.rules")
    for what in ("arptables", "ip6tables", "iptables"):
        kernel.has(f"{BRIDGE}{what}", "1")
    assert kernel.set(bridge_netfilter=False).notes == []
    assert kernel.text(f"{BRIDGE}iptables") == kernel.text(f"{BRIDGE}arptables") == "0"
    kernel.set()
    assert not kernel.there(SYSCTL)
    assert not kernel.there("etc/udev/rules.d/99-brine-virt-bridge.rules")


def test_huge_pages_now_and_at_boot(kernel: Kernel) -> None:
    plan = kernel.set(hugepages={"2MiB": 512})
    assert kernel.text(f"{PAGES}/nr_hugepages") == "512"
    assert kernel.text(TMPFILES).splitlines()[1:] == [f"w /{PAGES}/nr_hugepages - - - - 512"]
    assert not plan.restarts_libvirt
    kernel.has(f"{PAGES}/free_hugepages", "512")
    kernel.set(hugepages={"2M": 0})
    assert kernel.text(f"{PAGES}/nr_hugepages") == "0"
    kernel.set()
    assert not kernel.there(TMPFILES)


def test_huge_pages_of_another_size_are_mounted_for_libvirt(kernel: Kernel) -> None:
    plan = kernel.plan(hugepages={"1G": 2})
    assert plan.restarts_libvirt
    run(plan.steps)
    assert kernel.done() == ["daemon-reload", "enable --now dev-hugepages1G.mount"]
    unit = kernel.text("etc/systemd/system/dev-hugepages1G.mount")
    assert "Where=/dev/hugepages1G" in unit
    assert "pagesize=1G" in unit
    kernel.has("proc/self/mounts", "a /dev/hugepages hugetlbfs pagesize=2M 0 0\nb /x hugetlbfs rw,pagesize=1024M 0 0")
    assert not kernel.set(hugepages={"1G": 2}).restarts_libvirt
    kernel.set()
    assert not kernel.there("etc/systemd/system/dev-hugepages1G.mount")
    # What is mounted stays: a machine may use it.
    assert kernel.done()[-1] == "disable dev-hugepages1G.mount"


def test_no_fewer_pages_than_machines_use(kernel: Kernel) -> None:
    kernel.has(f"{PAGES}/nr_hugepages", "100")
    kernel.has(f"{PAGES}/free_hugepages", "30")
    kernel.has(f"{PAGES}/resv_hugepages", "10")
    with pytest.raises(
        VirtError, match=r"^hugepages\.2M: 79 is less than the 80 that machines use now\. Stop machines"
    ):
        kernel.plan(hugepages={"2M": 79})
    kernel.set(hugepages={"2M": 80})


def test_pages_that_the_kernel_does_not_give_are_an_error_and_no_file(kernel: Kernel) -> None:
    path = kernel.root / PAGES / "nr_hugepages"
    path.unlink()
    path.symlink_to("/dev/null")
    with pytest.raises(
        HostError, match=r"^hugepages\.2M: the kernel made .* of 512: its memory is used, or in pieces\. "
    ):
        run(kernel.plan(sysctl={"vm.swappiness": 10}, hugepages={"2M": 512}).steps)
    assert kernel.text("proc/sys/vm/swappiness") == "60"
    assert not kernel.there(SYSCTL)
    assert not kernel.there(TMPFILES)


def test_pages_that_cannot_be_set_at_all_are_not_for_want_of_memory(kernel: Kernel) -> None:
    path = kernel.root / PAGES / "nr_hugepages"
    path.unlink()
    # A number that can be read, and not written, as in a container.
    path.symlink_to("/proc/sys/kernel/cap_last_cap")
    with pytest.raises(HostError, match=r"^hugepages\.2M: the kernel refuses 512: [^:]*$"):
        run(kernel.plan(sysctl={"vm.swappiness": 10}, hugepages={"2M": 512}).steps)
    assert kernel.text("proc/sys/vm/swappiness") == "60"


@pytest.mark.parametrize("ksm", [True, False])
def test_ksm_now_and_at_boot(kernel: Kernel, ksm: bool) -> None:
    kernel.has("sys/kernel/mm/ksm/run", str(int(not ksm)))
    kernel.set(ksm=ksm)
    assert kernel.text("sys/kernel/mm/ksm/run") == str(int(ksm))
    assert f"echo {int(ksm)} >/sys/kernel/mm/ksm/run" in kernel.text(KSM_UNIT)
    assert kernel.done() == ["enable brine-virt-ksm.service"]
    kernel.set()
    assert not kernel.there(KSM_UNIT)
    assert kernel.done()[1:] == ["disable brine-virt-ksm.service"]
    assert kernel.text("sys/kernel/mm/ksm/run") == str(int(ksm))


def test_ksm_that_has_been_unmerged_is_off(kernel: Kernel) -> None:
    kernel.has("sys/kernel/mm/ksm/run", "2")
    kernel.set(ksm=False)
    assert kernel.text("sys/kernel/mm/ksm/run") == "2"


def test_ksmtuned_decides_where_it_is_on(kernel: Kernel) -> None:
    (kernel.units / "ksmtuned.service.enabled").touch()
    plan = kernel.set(ksm=True)
    assert plan.steps == []
    assert plan.notes == ["ksm: ksmtuned.service is on, and turns KSM on when memory is short"]


def test_ksmtuned_goes_where_ksm_is_off_and_comes_back_if_that_fails(kernel: Kernel) -> None:
    kernel.has("sys/kernel/mm/ksm/run", "1")
    for name in ("ksmtuned.service.enabled", "ksmtuned.service.active", "ksm.service.active"):
        (kernel.units / name).touch()
    before = {path.name for path in kernel.units.iterdir()}
    (kernel.root / "etc").mkdir(exist_ok=True)
    (kernel.root / "etc/systemd").write_text("in the way of the unit")
    with pytest.raises(HostError, match="brine-virt-ksm.service cannot be"):
        run(kernel.plan(ksm=False).steps)
    assert {path.name for path in kernel.units.iterdir()} - {"done"} == before
    assert kernel.text("sys/kernel/mm/ksm/run") == "1"
    (kernel.root / "etc/systemd").unlink()
    kernel.set(ksm=False)
    assert {path.name for path in kernel.units.iterdir()} == {"done", "brine-virt-ksm.service.enabled"}


def test_a_kernel_without_ksm(kernel: Kernel) -> None:
    (kernel.root / "sys/kernel/mm/ksm/run").unlink()
    assert kernel.set(ksm=False).steps == []
    with pytest.raises(VirtError, match=r"^ksm: the kernel cannot merge pages"):
        kernel.plan(ksm=True)


def test_nested_counts_when_the_module_is_loaded_again(kernel: Kernel) -> None:
    plan = kernel.set(nested=False)
    assert kernel.text("etc/modprobe.d/zz-brine-virt.conf").splitlines()[1:] == [
        "options kvm_intel nested=0",
        "options kvm_amd nested=0",
    ]
    assert plan.warnings == [
        "nested: it stays on until kvm_intel is loaded again, which takes a boot or a host without running machines"
    ]
    assert kernel.set(nested=True).warnings == []
    kernel.set()
    assert not kernel.there("etc/modprobe.d/zz-brine-virt.conf")
    with pytest.raises(VirtError, match=r"^nested: on aarch64 it is not a setting of a module\. Leave it out"):
        kernel.plan(machine="aarch64", nested=True)


def test_a_file_of_somebody_else_stays(kernel: Kernel) -> None:
    kernel.has("etc/modprobe.d/zz-brine-virt.conf", "# mine")
    with pytest.raises(VirtError, match=r"^/etc/modprobe\.d/zz-brine-virt\.conf is not from brine\.virt"):
        kernel.plan(nested=True)
    assert kernel.set().steps == []
    assert kernel.text("etc/modprobe.d/zz-brine-virt.conf") == "# mine"


def test_what_systemd_refuses_is_said(kernel: Kernel) -> None:
    plan = kernel.plan(ksm=True)
    (kernel.units / "refuse").touch()
    with pytest.raises(HostError, match="systemctl enable brine-virt-ksm.service failed: it will not"):
        run(plan.steps)
