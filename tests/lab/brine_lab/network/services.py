# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""The lab's two daemons: addresses and names (dnsmasq) and the package cache."""

from __future__ import annotations

import time
import urllib.error
import urllib.request

from brine_lab.base import processes
from brine_lab.base.commands import start, tail
from brine_lab.base.lab import Lab
from brine_lab.base.say import LabError, say
from brine_lab.base.state import DOMAIN, FIRST_HOST, FIRST_LEASE, LAST_HOST, LAST_LEASE, State
from brine_lab.network import package_cache


def up(lab: Lab, state: State) -> None:
    """Start what does not run."""
    for role, argv in (("dnsmasq", _dnsmasq(lab, state)), ("package-cache", _package_cache(lab, state))):
        if processes.find(lab, role):
            continue
        log = lab.logs / f"{role}.log"
        say(f"{role}: starting on {state.gateway}")
        child = start(argv, mark=lab.mark(role), log=log)
        # Both end at once when they cannot have their port.
        time.sleep(0.3)
        if child.poll() is not None:
            raise LabError(f"{role} ended with {child.returncode}. The end of {log}:\n{tail(log)}")
    _wait_for_package_cache(state)


def _dnsmasq(lab: Lab, state: State) -> list[str]:
    records = []
    for last in range(FIRST_HOST, LAST_HOST + 1):
        name = f"hv{last - FIRST_HOST + 1}"
        records.append(f"--host-record={name}.{DOMAIN},{name},{state.network[last]}")
        # By its name, which every client says: one that asks gets the address that is its own anyway.
        records.append(f"--dhcp-host={name},{state.network[last]}")
    return [
        "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--pid-file", "--no-hosts",
        f"--interface={lab.bridge}", "--bind-interfaces", "--except-interface=lo",
        f"--dhcp-range={state.network[FIRST_LEASE]},{state.network[LAST_LEASE]},255.255.255.0,12h",
        f"--dhcp-option=option:mtu,{state.mtu}", "--dhcp-authoritative",
        "--no-ping",  # an address at once, not after 3 s
        f"--dhcp-leasefile={lab.state / 'dnsmasq.leases'}", "--log-facility=-", "--log-dhcp",
        f"--domain={DOMAIN}", f"--local=/{DOMAIN}/", "--domain-needed", *records,
    ]  # fmt: skip


def _package_cache(lab: Lab, state: State) -> list[str]:
    return [str(lab.checkout / "tests/lab/lab"), "serve-packages", state.gateway]


def _wait_for_package_cache(state: State) -> None:
    url = f"http://{state.gateway}:{package_cache.PORT}/"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _attempt in range(50):
        try:
            opener.open(url, timeout=2)
        except urllib.error.HTTPError:  # it answers, if only that it is a proxy
            return
        except OSError:
            time.sleep(0.1)
    raise LabError(f"The lab's package cache does not answer at {url}.")
