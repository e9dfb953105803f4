# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""The commands of the lab."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from brine_lab import options, prerequisites
from brine_lab.base import processes, state
from brine_lab.base.lab import Lab, cache, this_lab
from brine_lab.base.lock import locked
from brine_lab.base.say import LabError, say
from brine_lab.base.state import UML, VM, State
from brine_lab.hosts import cgroups, containers, hosts, inventory, ssh
from brine_lab.images import golden, guest, images, modular, probe, system
from brine_lab.network import ceph, firewall, network, package_cache, services, trouble


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0, 1 for a failure, 2 for a prerequisite that is missing."""
    words = _parser().parse_args(argv)
    lab = this_lab(words.name or "")
    try:
        return int(words.command(lab, words) or 0)
    except LabError as exc:
        say(f"error: {exc}")
        return exc.exit_code
    except KeyboardInterrupt:
        say(f"interrupted; `{lab.command} up` goes on from here, `{lab.command} down` removes everything")
        return 130


def up(lab: Lab, words: argparse.Namespace) -> None:
    """Bring up what is missing; leave alone what runs."""
    prerequisites.check_machine()
    with locked(lab.id):
        plan = state.load(lab) or network.choose(lab)
        options.apply(lab, plan, words)
        plan = replace(plan, ceph=plan.ceph or words.ceph)
        prerequisites.install_packages(lab, _packages(plan))
        state.save(lab, plan)
        with ThreadPoolExecutor(2) as pool:
            trees = _built(pool, lab, plan)
            kvm = pool.submit(probe.kvm_works, lab)
            built = [pool.submit(images.image, lab, recipe) for recipe in images.USUAL if words.images]
            network.up(lab, plan)
            services.up(lab, plan)
            if plan.ceph:
                ceph.up(lab, plan)
            for tree in trees:
                tree.result()
            for host in plan.hosts:
                hosts.unpack(lab, plan, host)
            ssh.write_files(lab, plan)
            inventory.write_files(lab, plan)
            for host in plan.hosts:
                hosts.boot(lab, plan, host, kvm=kvm.result())
            hosts.wait_ready(lab, plan)
            for image in built:
                image.result()
    say(f"the lab is up; inventory, in this order: {' '.join(inventory.options(lab))}")


def _built(pool: Executor, lab: Lab, plan: State) -> list[Future[Any]]:
    """The builds of what the plan's hosts are made from, each once."""
    containers_of = {
        (release, plan.managers.get(host, golden.NETWORKD))
        for host, release in plan.hosts.items()
        if host not in plan.hardware
    }
    systems = sorted({(plan.hosts[host], its.kind, its.prepared, its.zfs) for host, its in plan.hardware.items()})
    return [
        *(pool.submit(golden.tree, lab, release, manager) for release, manager in sorted(containers_of)),
        *([pool.submit(modular.packages, lab)] if plan.modular else []),
        *(
            pool.submit(system.system, lab, release, kind, prepared=prepared, zfs=zfs)
            for release, kind, prepared, zfs in systems
        ),
    ]


def _packages(plan: State | None) -> dict[str, str]:
    """What the plan's hosts take on this machine, besides what every lab takes."""
    kinds = {plan.kind(host) for host in plan.hosts} if plan else set()
    # QEMU where it runs a host, or where /dev/kvm has to be tried out.
    qemu = guest.PACKAGES if VM in kinds or probe.DEVICE.exists() else {}
    return {
        **qemu,
        **(system.UML_PACKAGES if UML in kinds else {}),
        **(ceph.PACKAGES if plan and plan.ceph else {}),
    }


def down(lab: Lab, words: argparse.Namespace) -> None:
    """Remove everything that `up` made; the cache stays."""
    prerequisites.check_machine()
    with locked(lab.id):
        ended = processes.end(lab)
        containers.remove_leftovers(lab)
        cgroups.remove(lab)
        if shutil.which("nft") and shutil.which("ip"):  # without them there never was a network
            network.down(lab)
        hosts.remove_trees(lab)
        shutil.rmtree(lab.state, ignore_errors=True)
    say(f"the lab is down ({ended} processes ended)")


def status(lab: Lab, words: argparse.Namespace) -> int:
    """Print one line for each part; 0 when all runs, 1 otherwise."""
    plan = state.load(lab)
    if plan is None:
        print(f"lab {lab.id}: down")
        return 1
    parts = {
        f"bridge {lab.bridge} {plan.subnet}": network.exists(lab),
        f"nftables table {lab.table}": firewall.exists(lab),
        "dnsmasq": bool(processes.find(lab, "dnsmasq")),
        "package cache": bool(processes.find(lab, "package-cache")),
        **({"ceph": ceph.running(lab)} if plan.ceph else {}),
        **{
            f"{' '.join((host, release, *_remarks(plan, host)))} {plan.address(host)}": hosts.answers(lab, host)
            for host, release in plan.hosts.items()
        },
    }
    for part, fine in parts.items():
        print(f"{part}: {'up' if fine else 'down'}")
    return 0 if all(parts.values()) else 1


def _remarks(plan: State, host: str) -> list[str]:
    """What a host has that most have not."""
    manager = plan.managers.get(host)
    kind = [plan.kind(host)] if host in plan.hardware else []
    daemons = [options.MODULAR] if host in plan.modular else []
    return [*kind, *([manager] if manager else []), *(["dhcp"] if host in plan.dhcp else []), *daemons]


def say_kvm(lab: Lab, words: argparse.Namespace) -> int:
    """Print whether guests run under KVM on this machine; 0 when they do, 1 otherwise."""
    prerequisites.check_machine()
    prerequisites.install_packages(lab, _packages(None))
    works = probe.kvm_works(lab)
    print("yes" if works else "no")
    return 0 if works else 1


def print_images(lab: Lab, words: argparse.Namespace) -> None:
    """Print where the guest images are, as JSON; build them first when they are missing."""
    prerequisites.check_machine()
    prerequisites.install_packages(lab)
    unknown = set(words.names) - {recipe.name for recipe in images.RECIPES}
    if unknown:
        raise LabError(f"There is no guest image {', '.join(sorted(unknown))}; there are: {_image_names()}.", 2)
    wanted = [recipe for recipe in images.RECIPES if recipe.name in words.names] or images.USUAL
    built = {recipe.name: images.image(lab, recipe) for recipe in wanted}
    for recipe in wanted if words.boot else ():
        prerequisites.install_packages(lab, guest.PACKAGES)
        seconds = guest.boot(lab, recipe, built[recipe.name], accelerator="tcg", limit_seconds=300)
        say(f"guest image {recipe.name}: up after {seconds:.0f} s under emulation, with 1 vCPU and 512 MiB")
    print(json.dumps({name: {"path": str(image.path), "sha256": image.sha256} for name, image in built.items()}))


def log_in(lab: Lab, words: argparse.Namespace) -> None:
    """Become ssh."""
    _require_host(lab, words.host)
    ssh.log_in(lab, words.host, words.words)


def unplug(lab: Lab, words: argparse.Namespace) -> None:
    """Take a host's power away: all that runs on it is gone at once, and what it had not flushed may be."""
    _require_host(lab, words.host)
    processes.kill(lab, f"host:{words.host}")
    say(f"{words.host} is off; `{lab.command} up` boots it")


def cut(lab: Lab, words: argparse.Namespace) -> None:
    """Cut a host off from another one, or from everybody."""
    for host in (words.host, words.other):
        _require_host(lab, host or words.host)
    trouble.cut(lab, words.host, words.other)
    say(f"{words.host} is cut off from {words.other or 'everything'}; `{lab.command} heal` undoes it")


def slow(lab: Lab, words: argparse.Namespace) -> None:
    """Limit what a host can receive."""
    _require_host(lab, words.host)
    trouble.slow(lab, words.host, words.mbit)
    say(f"{words.host} receives at most {words.mbit} Mbit/s; `{lab.command} heal` undoes it")


def heal(lab: Lab, words: argparse.Namespace) -> None:
    """End what cut and slow began."""
    plan = state.load(lab)
    trouble.heal(lab, list(plan.hosts) if plan else [])


def use_ceph(lab: Lab, words: argparse.Namespace) -> None:
    """Print how hypervisors reach the cluster, or become one of its programs."""
    plan = state.load(lab)
    if plan is None or not plan.ceph:
        raise LabError(f"The lab has no Ceph: run `{lab.command} up --ceph`.")
    if words.words:
        ceph.become(lab, words.words)
    print(ceph.connection(lab, plan))


def _require_host(lab: Lab, host: str) -> None:
    plan = state.load(lab)
    if plan is None or host not in plan.hosts:
        raise LabError(
            f"There is no host {host}; there are: {', '.join(plan.hosts) if plan else 'none, the lab is down'}."
        )


def print_inventory(lab: Lab, words: argparse.Namespace) -> None:
    """Print the hosts' inventory, and on standard error the options that use it."""
    if state.load(lab) is None:
        raise LabError(f"The lab is down: run `{lab.command} up`.")
    sys.stdout.write((lab.inventory / "hosts.yml").read_text())
    say(f"use it with: {' '.join(inventory.options(lab))}")


def clean(lab: Lab, words: argparse.Namespace) -> None:
    """Take the lab down and delete the cache."""
    down(lab, words)
    shutil.rmtree(cache(), ignore_errors=True)
    say(f"removed {cache()}")


def serve_packages(lab: Lab, words: argparse.Namespace) -> None:
    """Be the package cache (started by `up`)."""
    package_cache.serve(words.address)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tests/lab/lab", description="Real hypervisors on one machine. Needs root, apt and /dev/net/tun."
    )
    parser.add_argument(
        "--name",
        type=_name,
        help="another lab than the usual one of this checkout: of its own hosts, network and files (.build/lab-NAME)",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: object, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=function)
        return sub

    sub = command("up", up, "start the lab, or the parts of it that are missing")
    options.add(sub)
    sub.add_argument("--images", action="store_true", help="build the guest images too, beside the hosts' tree")
    command("down", down, "remove everything that up made, but not the cache")
    command("status", status, "show what is running; exit code 0 if everything is")
    sub = command("ssh", log_in, "log in to a host, or run a command there")
    sub.add_argument("host", metavar="HOST")
    sub.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD")
    command("kvm", say_kvm, "say whether guests run under KVM on this machine; exit code 0 if they do")
    sub = command("images", print_images, "print the guest images as JSON; build what is missing")
    sub.add_argument("names", nargs="*", metavar="NAME", help=f"only these, of {_image_names()}")
    sub.add_argument("--boot", action="store_true", help="also boot them under emulation and show how long it takes")
    sub = command("unplug", unplug, "take a host's power away, until up")
    sub.add_argument("host", metavar="HOST")
    sub = command("cut", cut, "cut a host off from another one, or from everything, until heal")
    sub.add_argument("host", metavar="HOST")
    sub.add_argument("other", metavar="OTHER", nargs="?")
    sub = command("slow", slow, "limit what a host receives to so many Mbit/s, until heal")
    sub.add_argument("host", metavar="HOST")
    sub.add_argument("mbit", type=_mbit, metavar="MBIT")
    command("heal", heal, "undo cut and slow")
    sub = command("ceph", use_ceph, "print how to use the Ceph cluster as JSON, or run ceph, rbd or rados in it")
    sub.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD")
    command("inventory", print_inventory, "print the hosts' Ansible inventory")
    command("clean", clean, "down, and delete the cache too")
    sub = command("serve-packages", serve_packages, "(used by up) run the package cache at an address")
    sub.add_argument("address")
    return parser


def _image_names() -> str:
    return " and ".join(recipe.name for recipe in images.RECIPES)


def _name(text: str) -> str:
    if not re.fullmatch("[a-z][a-z0-9]*", text):
        raise argparse.ArgumentTypeError(f"small letters and digits, a letter first, not {text!r}")
    return text


def _mbit(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number of Mbit/s, at least 1, not {text!r}")
    return int(text)
