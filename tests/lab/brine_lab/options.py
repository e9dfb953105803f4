# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""The options of `up` about hosts, and what they make of the plan."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

from brine_lab.base import state
from brine_lab.base.lab import Lab
from brine_lab.base.say import LabError
from brine_lab.base.state import CONTAINER, OWN_KERNEL, VM, Hardware, State
from brine_lab.hosts import hosts, own_kernel
from brine_lab.images import golden, modular
from brine_lab.network import network

MONOLITHIC, MODULAR = "monolithic", "modular"
KINDS = (CONTAINER, *OWN_KERNEL)
OWN = " or ".join(OWN_KERNEL)


def add(sub: argparse.ArgumentParser) -> None:
    """The options themselves."""
    sub.add_argument("--hosts", type=_count, default=2, metavar="N", help="how many hosts: hv1 to hvN (default 2)")
    sub.add_argument(
        "--release",
        type=_words(golden.RELEASES),
        default=[None],
        metavar="R[,R...]",
        help=f"the hosts' Debian releases, of {' and '.join(golden.RELEASES)}, one each from hv1 on; the last one is"
        f" for the rest too (default: {golden.RELEASES[0]} for new hosts)",
    )
    sub.add_argument(
        "--kind",
        type=_words(KINDS),
        default=[None],
        metavar="K[,K...]",
        help=f"what the hosts are, of {', '.join(KINDS)}, one each from hv1 on; the last one is for the rest too"
        f" (default: {CONTAINER} for new hosts)",
    )
    sub.add_argument(
        "--nics",
        type=_number(1, network.MOST_NICS),
        metavar="N",
        help=f"how many network cards a {OWN} has, all on the lab's network (default {Hardware.nics})",
    )
    sub.add_argument(
        "--disks",
        type=_number(0, own_kernel.MOST_DISKS),
        metavar="N",
        help=f"how many disks of {own_kernel.DISK_GIB} GiB a {OWN} has besides its system's (default {Hardware.disks})",
    )
    sub.add_argument(
        "--prepared",
        action="store_true",
        default=None,
        help=f"a {OWN} has the packages of a hypervisor on its disk: it takes it minutes to install them",
    )
    sub.add_argument(
        "--zfs",
        action="store_true",
        default=None,
        help=f"a {VM} has ZFS too, with a kernel module that is built once, which takes long; with --prepared",
    )
    sub.add_argument(
        "--sudo",
        type=lambda text: text.split(","),
        default=[],
        metavar="HOST[,HOST...]",
        help=f"hosts that Ansible logs in to as the user {state.SUDO_USER}, who has sudo, instead of root",
    )

    sub.add_argument(
        "--manager",
        type=_words(golden.MANAGERS),
        default=[None],
        metavar="M[,M...]",
        help=f"what configures the network of a {CONTAINER}, of {', '.join(golden.MANAGERS)}, one each from hv1 on; the"
        f" last one is for the rest too (default: {golden.NETWORKD} for new hosts)",
    )
    sub.add_argument(
        "--dhcp",
        type=lambda text: text.split(","),
        default=[],
        metavar="HOST[,HOST...]",
        help="hosts that ask for their address instead of having it in their configuration; it is the same one",
    )
    sub.add_argument(
        "--daemons",
        type=_words((MONOLITHIC, MODULAR)),
        default=[None],
        metavar="D[,D...]",
        help=f"what libvirt's packages of a {CONTAINER} with {modular.RELEASE} have, {MONOLITHIC} (Debian's own) or"
        f" {MODULAR} (built for it once, which takes long), one each from hv1 on; the last one is for the rest too"
        f" (default: {MONOLITHIC} for new hosts)",
    )
    sub.add_argument(
        "--ceph",
        action="store_true",
        help="a Ceph cluster too, with a pool for machines; `ceph` says how to use it",
    )


def apply(lab: Lab, plan: State, words: argparse.Namespace) -> None:
    """Add those that are not in the plan yet; those that are stay what they are, and must be what was asked for."""
    names = hosts.names(words.hosts)
    releases, kinds, managers, daemons = (
        _for_each(given, words.hosts) for given in (words.release, words.kind, words.manager, words.daemons)
    )
    for host, release, kind, manager, form in zip(names, releases, kinds, managers, daemons, strict=True):
        new = host not in plan.hosts
        there = plan.hosts.setdefault(host, release or golden.RELEASES[0])
        if release not in (None, there):
            raise LabError(f"{host} is a {there} host; run `{lab.command} down` first for {release}.")
        if new and kind in OWN_KERNEL:
            plan.hardware[host] = Hardware(
                words.nics or Hardware.nics,
                words.disks or Hardware.disks,
                words.prepared or Hardware.prepared,
                kind,
                words.zfs or Hardware.zfs,
            )
        if new and manager not in (None, golden.NETWORKD):
            plan.managers[host] = manager
        if new and host in words.dhcp:
            plan.dhcp.append(host)
        if new and form == MODULAR:
            plan.modular.append(host)
        _compare(lab, plan, host, kind, words)
        _compare_network(lab, plan, host, manager, words)
        _compare_daemons(lab, plan, host, form)
        if host in words.sudo and host not in plan.sudo:
            if (lab.trees / host).exists():
                raise LabError(f"{host} is there, for root; run `{lab.command} down` first for a user with sudo.")
            plan.sudo.append(host)
    if words.zfs and not all(its.kind == VM and its.prepared for its in plan.hardware.values()):
        raise LabError(f"--zfs is for hosts of the kind {VM}, with --prepared.", 2)
    if (words.nics or words.disks or words.prepared or words.zfs) and not plan.hardware:
        raise LabError(
            f"--nics, --disks, --prepared and --zfs are for hosts with a kernel of their own: add --kind {OWN}.", 2
        )


def _compare(lab: Lab, plan: State, host: str, kind: str | None, words: argparse.Namespace) -> None:
    """Raise LabError when a host is not of this kind, or has not the hardware that the words say."""
    hardware = plan.hardware.get(host)
    is_a = plan.kind(host)
    if kind not in (None, is_a):
        raise LabError(f"{host} is a {is_a}; run `{lab.command} down` first for a {kind}.")
    if hardware is None:
        return
    for what in ("nics", "disks", "prepared", "zfs"):
        wanted, has = getattr(words, what), getattr(hardware, what)
        if wanted not in (None, has):
            raise LabError(f"{host} has {what}: {has}; run `{lab.command} down` first for {wanted}.")


def _compare_network(lab: Lab, plan: State, host: str, manager: str | None, words: argparse.Namespace) -> None:
    """Raise LabError when a host's network is configured in another way than the words say."""
    there = plan.managers.get(host, golden.NETWORKD)
    if host in plan.hardware and there != golden.NETWORKD:
        raise LabError(f"{host} is a {plan.kind(host)}: only {golden.NETWORKD} configures its network.", 2)
    if manager not in (None, there):
        raise LabError(f"{host} has {there}; run `{lab.command} down` first for {manager}.")
    if host in words.dhcp and host not in plan.dhcp:
        raise LabError(f"{host} is there with a static address; run `{lab.command} down` first for DHCP.")


def _compare_daemons(lab: Lab, plan: State, host: str, form: str | None) -> None:
    """Raise LabError when a host's libvirt is to have other daemons than it has, or than can be built for it."""
    there = MODULAR if host in plan.modular else MONOLITHIC
    if form not in (None, there):
        raise LabError(f"{host} has {there} daemons; run `{lab.command} down` first for {form}.")
    if there == MODULAR and (host in plan.hardware or plan.hosts[host] != modular.RELEASE):
        raise LabError(f"{host}: {MODULAR} daemons are only built for a {CONTAINER} with {modular.RELEASE}.", 2)


def _words(known: Iterable[str]) -> Callable[[str], list[str]]:
    """What reads one or more of these words, with commas between them."""

    def words(text: str) -> list[str]:
        given = text.split(",")
        if not set(given) <= set(known):
            raise argparse.ArgumentTypeError(f"one or more of {', '.join(known)}, not {text!r}")
        return given

    return words


def _number(lowest: int, highest: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdigit() or not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(f"a number from {lowest} to {highest}, not {text!r}")
        return int(text)

    return number


def _for_each(values: Sequence[str | None], count: int) -> list[str | None]:
    """A value for each host: the last one for all that are left."""
    return [values[min(number, len(values) - 1)] for number in range(count)]


def _count(text: str) -> int:
    highest = state.LAST_HOST - state.FIRST_HOST + 1
    if not text.isdigit() or not 1 <= int(text) <= highest:
        raise argparse.ArgumentTypeError(f"a number of hosts from 1 to {highest}, not {text!r}")
    return int(text)
