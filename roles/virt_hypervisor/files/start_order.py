# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts libvirt's machines in their order when the host boots, and shuts them down in the reverse order.

Called by brine-virt-start-order.service and brine-virt-start-order-prepare.service, which the role virt_hypervisor of
the Ansible collection brine.virt installs. It stands alone: the host has nothing else of the collection.

libvirt starts the machines that are marked for autostart once after each boot, all at the same time. It leaves the file
MARK when it has, and does nothing where it finds that (virDriverShouldAutostart in libvirt's src/driver.c, for the QEMU
driver in /run/libvirt/qemu). So ``prepare`` runs before libvirt and leaves MARK where a machine with autostart has an
order, with FLAG for ``start``, which then starts the machines. Where no machine has one, libvirt does it as always.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor

URI = "qemu:///system"
AUTOSTART = "/etc/libvirt/qemu/autostart"
MARK = "/run/libvirt/qemu/autostarted"
FLAG = "/run/brine-virt/start-order"
NAMESPACE = "urn:brine:virt:1"
CONNECT_SECONDS = 120
THREADS = 8
# A guest that is still booting does not hear of the first request.
ASK_AGAIN_SECONDS = 20
_MOST_DIGITS = 30
# More, which nobody could have asked for, is nonsense, and nobody waits for it.
_MOST_DELAY_SECONDS = 3600
# The same of an order.
_MOST_ORDER = 9999


def say(text, failed=False):
    """Write a line to the journal. failed: as an error (sd-daemon(3))."""
    print(f"{'<3>' if failed else '<6>'}{text}", flush=True)


def read_turn(element):
    """(order, delay in seconds) in our metadata of a machine, a parsed element; (None, 0) where there is none.

    libvirt gives the element without its namespace, a definition's file has it with it.
    """
    for child in element:
        if child.tag in ("start", f"{{{NAMESPACE}}}start"):
            delay_seconds = _count(child.get("delay")) or 0
            order = _count(child.get("order"))
            return (
                order if order is not None and order <= _MOST_ORDER else None,
                delay_seconds if delay_seconds <= _MOST_DELAY_SECONDS else 0,
            )
    return None, 0


def _count(text):
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def order_in_file(path):
    """The order in a definition's file; None where there is none, or nothing can be read."""
    try:
        machine = ET.parse(path).find(f"metadata/{{{NAMESPACE}}}machine")
    except (OSError, ET.ParseError, LookupError, ValueError) as exc:
        # The last two are about the encoding that the file says it has.
        say(f"{path} cannot be read: {exc}", failed=True)
        return None
    return None if machine is None else read_turn(machine)[0]


def prepare(autostart=AUTOSTART, mark=MARK, flag=FLAG):
    """Keep libvirt from starting the machines where one has an order. Whatever goes wrong, libvirt starts them."""
    # Without it nobody could start them.
    import libvirt  # noqa: F401

    names = sorted(os.listdir(autostart)) if os.path.isdir(autostart) else []
    if os.path.exists(mark) or all(order_in_file(os.path.join(autostart, name)) is None for name in names):
        return
    # The modules want the directory of the flag, where their locks are, for root alone.
    for path, mode in ((flag, 0o700), (mark, 0o755)):
        directory = os.path.dirname(path)
        if not os.path.isdir(directory):
            os.makedirs(directory, mode)
            restorecon = shutil.which("restorecon")
            if restorecon:
                subprocess.run([restorecon, "-R", directory], check=False)
        # The flag comes first: the mark alone would leave the machines off.
        with open(path, "w", encoding="utf-8"):
            pass
    say("machines with autostart have a start order: brine-virt-start-order.service starts them")


class Machine:
    """A machine as libvirt has it, with its order and delay."""

    def __init__(self, handle):
        import libvirt

        self.handle = handle
        self.name = handle.name()
        self.order, self.delay_seconds = None, 0
        try:
            text = handle.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE, 0)
            self.order, self.delay_seconds = read_turn(ET.fromstring(text))
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN_METADATA:
                say(f"{self.name}: its metadata cannot be read, so it has no order: {exc}", failed=True)
        except ET.ParseError as exc:
            say(f"{self.name}: its metadata cannot be read, so it has no order: {exc}", failed=True)


def in_order(machines):
    """The machines in the groups that start one after the other; those without an order are the last."""
    orders = sorted({machine.order for machine in machines if machine.order is not None})
    groups = [[machine for machine in machines if machine.order == order] for order in [*orders, None]]
    return [group for group in groups if group]


def connect(seconds=CONNECT_SECONDS, uri=URI):
    """libvirt's connection, as soon as its daemon answers. Raises what libvirt says when it does not in time."""
    import libvirt

    # Errors are said in our own lines.
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    end = time.monotonic() + seconds
    while True:
        try:
            return libvirt.open(uri)
        except libvirt.libvirtError:
            if time.monotonic() > end:
                raise
        time.sleep(1)


def is_active(handle):
    """Whether a machine is in memory; one that is gone is not."""
    import libvirt

    try:
        return bool(handle.isActive())
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return False
        raise


def starts_once(handle, done=False):
    """Whether it starts at this boot only (virsh autostart --once, libvirt 11.2). done: it does no more."""
    import libvirt

    try:
        once = bool(handle.autostartOnce())
        if once and done:
            handle.setAutostartOnce(0)
    except (AttributeError, libvirt.libvirtError):
        return False
    return once


def start_machines(conn):
    """Start what has autostart and is off. One that does not start is said, and the others go on."""
    import libvirt

    def start(machine):
        try:
            machine.handle.create()
            say(f"started {machine.name}" + (f" (order {machine.order})" if machine.order is not None else ""))
            return machine.delay_seconds
        except libvirt.libvirtError as exc:
            if not is_active(machine.handle):
                say(f"{machine.name} could not be started: {exc}", failed=True)
            return 0
        finally:
            starts_once(machine.handle, done=True)

    def is_meant(handle):
        try:
            return bool(handle.autostart()) or starts_once(handle)
        except libvirt.libvirtError as exc:
            say(f"{handle.name()} is left as it is: {exc}", failed=True)
            return False

    handles = conn.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_INACTIVE)
    machines = [Machine(handle) for handle in handles if is_meant(handle)]
    delay_seconds = 0
    for group in in_order(machines):
        if delay_seconds:
            say(f"waiting {delay_seconds} s before the next ones")
            time.sleep(delay_seconds)
        with ThreadPoolExecutor(THREADS) as executor:
            delay_seconds = max(executor.map(start, group))


def stop_machines(conn, seconds, parallel):
    """Shut the running machines down in the reverse order, where one has an order.

    seconds: for all of them together, 0 for no limit; what still runs then is left to libvirt-guests. Each group has an
    equal share of what the ones before it have left: a guest that does not listen takes it from its own group alone.
    parallel: how many at once.
    """
    import libvirt

    machines = [Machine(handle) for handle in conn.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)]
    if all(machine.order is None for machine in machines):
        return
    end = time.monotonic() + seconds if seconds else float("inf")

    def ask(handle):
        try:
            handle.shutdown()
        except libvirt.libvirtError as exc:
            if is_active(handle):
                say(f"{handle.name()} could not be asked to shut down: {exc}", failed=True)

    def stop(machine, until):
        handle, asked_at = machine.handle, float("-inf")
        try:
            if not is_active(handle):
                return
            if handle.state()[0] != libvirt.VIR_DOMAIN_RUNNING:
                say(f"{machine.name} is in memory but does not run, so it cannot shut down", failed=True)
                return
            if time.monotonic() >= until:
                say(f"{machine.name} was not asked to shut down: there was no time left for it", failed=True)
                return
            while is_active(handle) and time.monotonic() < until:
                if time.monotonic() - asked_at > ASK_AGAIN_SECONDS:
                    asked_at = time.monotonic()
                    ask(handle)
                time.sleep(0.5)
            if is_active(handle):
                say(f"{machine.name} has not shut down in time", failed=True)
            else:
                say(f"{machine.name} has shut down")
        except libvirt.libvirtError as exc:
            say(f"{machine.name}: {exc}", failed=True)

    groups = list(reversed(in_order(machines)))
    for number, group in enumerate(groups):
        now = time.monotonic()
        until = now + (end - now) / (len(groups) - number)
        with ThreadPoolExecutor(max(1, parallel)) as executor:
            list(executor.map(stop, group, [until] * len(group)))


def host_stops():
    """Whether the host is shutting down: on a running host nobody stops machines by stopping a unit."""
    done = subprocess.run(["systemctl", "is-system-running"], stdout=subprocess.PIPE, check=False, text=True)
    return done.stdout.strip() == "stopping"


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("prepare", "start", "stop"))
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("--parallel", type=int, default=THREADS)
    options = parser.parse_args(words)
    if options.command == "prepare":
        prepare()
    elif options.command == "start" and os.path.exists(FLAG):
        start_machines(connect())
        os.remove(FLAG)
    elif options.command == "stop" and host_stops():
        stop_machines(connect(10), options.timeout, options.parallel)


if __name__ == "__main__":
    main(sys.argv[1:])
