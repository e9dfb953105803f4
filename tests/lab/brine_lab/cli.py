# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""The commands of the lab."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from brine_lab import prerequisites
from brine_lab.base import processes, state
from brine_lab.base.lab import Lab, cache, this_lab
from brine_lab.base.lock import locked
from brine_lab.base.say import LabError, say
from brine_lab.hosts import cgroups, hosts, inventory, ssh
from brine_lab.images import golden, guest, images, probe
from brine_lab.network import firewall, network, package_cache, services, trouble


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0, 1 for a failure, 2 for a prerequisite that is missing."""
    words = _parser().parse_args(argv)
    lab = this_lab()
    try:
        return int(words.command(lab, words) or 0)
    except LabError as exc:
        say(f"error: {exc}")
        return exc.exit_code
    except KeyboardInterrupt:
        say("interrupted; `tests/lab/lab up` goes on from here, `tests/lab/lab down` removes everything")
        return 130


def up(lab: Lab, words: argparse.Namespace) -> None:
    """Bring up what is missing; leave alone what runs."""
    prerequisites.check_machine()
    with locked(lab.id):
        # With QEMU where /dev/kvm has to be tried out.
        prerequisites.install_packages(lab, guest.PACKAGES if probe.DEVICE.exists() else None)
        plan = state.load(lab) or network.choose(lab)
        for host, release in zip(hosts.names(words.hosts), _for_each(words.release, words.hosts), strict=True):
            there = plan.hosts.setdefault(host, release or golden.RELEASES[0])
            if release not in (None, there):
                raise LabError(f"{host} is a {there} host; run `tests/lab/lab down` first for {release}.")
            if host in words.sudo and host not in plan.sudo:
                if (lab.trees / host).exists():
                    raise LabError(f"{host} is there, for root; run `tests/lab/lab down` first for a user with sudo.")
                plan.sudo.append(host)
        state.save(lab, plan)
        with ThreadPoolExecutor(2) as pool:
            trees = [pool.submit(golden.tree, lab, release) for release in sorted(set(plan.hosts.values()))]
            kvm = pool.submit(probe.kvm_works, lab)
            built = [pool.submit(images.image, lab, recipe) for recipe in images.RECIPES if words.images]
            network.up(lab, plan)
            services.up(lab, plan)
            for tree in trees:
                tree.result()
            for host in plan.hosts:
                hosts.unpack(lab, plan, host)
            ssh.write_files(lab, plan)
            inventory.write_files(lab, plan)
            for host in plan.hosts:
                hosts.boot(lab, host, kvm=kvm.result())
            hosts.wait_ready(lab, list(plan.hosts))
            for image in built:
                image.result()
    say(f"the lab is up; inventory, in this order: {' '.join(inventory.options(lab))}")


def down(lab: Lab, words: argparse.Namespace) -> None:
    """Remove everything that `up` made; the cache stays."""
    prerequisites.check_machine()
    with locked(lab.id):
        ended = processes.end(lab)
        hosts.remove_nspawn_leftovers(lab)
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
        **{f"{host} {release} {plan.address(host)}": hosts.answers(lab, host) for host, release in plan.hosts.items()},
    }
    for part, fine in parts.items():
        print(f"{part}: {'up' if fine else 'down'}")
    return 0 if all(parts.values()) else 1


def print_images(lab: Lab, words: argparse.Namespace) -> None:
    """Print where the guest images are, as JSON; build them first when they are missing."""
    prerequisites.check_machine()
    prerequisites.install_packages(lab)
    unknown = set(words.names) - {recipe.name for recipe in images.RECIPES}
    if unknown:
        raise LabError(f"There is no guest image {', '.join(sorted(unknown))}; there are: {_image_names()}.", 2)
    wanted = [recipe for recipe in images.RECIPES if recipe.name in (words.names or [recipe.name])]
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


def cut(lab: Lab, words: argparse.Namespace) -> None:
    """Cut a host off from another one, or from everybody."""
    for host in (words.host, words.other):
        _require_host(lab, host or words.host)
    trouble.cut(lab, words.host, words.other)
    say(f"{words.host} is cut off from {words.other or 'everything'}; `tests/lab/lab heal` undoes it")


def slow(lab: Lab, words: argparse.Namespace) -> None:
    """Limit what a host can receive."""
    _require_host(lab, words.host)
    trouble.slow(lab, words.host, words.mbit)
    say(f"{words.host} receives at most {words.mbit} Mbit/s; `tests/lab/lab heal` undoes it")


def heal(lab: Lab, words: argparse.Namespace) -> None:
    """End what cut and slow began."""
    plan = state.load(lab)
    trouble.heal(lab, list(plan.hosts) if plan else [])


def _require_host(lab: Lab, host: str) -> None:
    plan = state.load(lab)
    if plan is None or host not in plan.hosts:
        raise LabError(
            f"There is no host {host}; there are: {', '.join(plan.hosts) if plan else 'none, the lab is down'}."
        )


def print_inventory(lab: Lab, words: argparse.Namespace) -> None:
    """Print the hosts' inventory, and on standard error the options that use it."""
    if state.load(lab) is None:
        raise LabError("The lab is down: run `tests/lab/lab up`.")
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
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: object, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=function)
        return sub

    sub = command("up", up, "start the lab, or the parts of it that are missing")
    sub.add_argument("--hosts", type=_count, default=2, metavar="N", help="how many hosts: hv1 to hvN (default 2)")
    sub.add_argument(
        "--release",
        type=_releases,
        default=[None],
        metavar="R[,R...]",
        help=f"the hosts' Debian releases, of {' and '.join(golden.RELEASES)}, one each from hv1 on; the last one is"
        f" for the rest too (default: {golden.RELEASES[0]} for new hosts)",
    )
    sub.add_argument(
        "--sudo",
        type=lambda text: text.split(","),
        default=[],
        metavar="HOST[,HOST...]",
        help=f"hosts that Ansible logs in to as the user {state.SUDO_USER}, who has sudo, instead of root",
    )
    sub.add_argument("--images", action="store_true", help="build the guest images too, beside the hosts' tree")
    command("down", down, "remove everything that up made, but not the cache")
    command("status", status, "show what is running; exit code 0 if everything is")
    sub = command("ssh", log_in, "log in to a host, or run a command there")
    sub.add_argument("host", metavar="HOST")
    sub.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD")
    sub = command("images", print_images, "print the guest images as JSON; build what is missing")
    sub.add_argument("names", nargs="*", metavar="NAME", help=f"only these, of {_image_names()}")
    sub.add_argument("--boot", action="store_true", help="also boot them under emulation and show how long it takes")
    sub = command("cut", cut, "cut a host off from another one, or from everything, until heal")
    sub.add_argument("host", metavar="HOST")
    sub.add_argument("other", metavar="OTHER", nargs="?")
    sub = command("slow", slow, "limit what a host receives to so many Mbit/s, until heal")
    sub.add_argument("host", metavar="HOST")
    sub.add_argument("mbit", type=_mbit, metavar="MBIT")
    command("heal", heal, "undo cut and slow")
    command("inventory", print_inventory, "print the hosts' Ansible inventory")
    command("clean", clean, "down, and delete the cache too")
    sub = command("serve-packages", serve_packages, "(used by up) run the package cache at an address")
    sub.add_argument("address")
    return parser


def _image_names() -> str:
    return " and ".join(recipe.name for recipe in images.RECIPES)


def _mbit(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number of Mbit/s, at least 1, not {text!r}")
    return int(text)


def _releases(text: str) -> list[str]:
    releases = text.split(",")
    if not set(releases) <= set(golden.RELEASES):
        raise argparse.ArgumentTypeError(f"one or more of {', '.join(golden.RELEASES)}, not {text!r}")
    return releases


def _for_each(releases: Sequence[str | None], count: int) -> list[str | None]:
    """A release for each host: the last one for all that are left."""
    return [releases[min(number, len(releases) - 1)] for number in range(count)]


def _count(text: str) -> int:
    highest = state.LAST_HOST - state.FIRST_HOST + 1
    if not text.isdigit() or not 1 <= int(text) <= highest:
        raise argparse.ArgumentTypeError(f"a number of hosts from 1 to {highest}, not {text!r}")
    return int(text)
