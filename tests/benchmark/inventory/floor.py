# SPDX-License-Identifier: GPL-3.0-or-later
"""What nobody can go below: the bulk calls and each machine's XML, by libvirt-python alone.

``python floor.py URI...`` asks one hypervisor with so many threads, or as many hypervisors at once.
"""

from __future__ import annotations

import concurrent.futures
import sys

import libvirt

THREADS = 20


def ask(uri: str, threads: int) -> int:
    """The states of a hypervisor's machines in one call, and the XML of each; how many there are."""
    conn = libvirt.open(uri)
    domains = conn.listAllDomains()
    conn.getAllDomainStats(libvirt.VIR_DOMAIN_STATS_STATE, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        texts = list(pool.map(lambda domain: domain.XMLDesc(), domains))
    conn.close()
    return len(texts)


def main(uris: list[str]) -> int:
    """How many machines all hypervisors have."""
    if len(uris) == 1:
        return ask(uris[0], THREADS)
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(lambda uri: ask(uri, 1), uris))


if __name__ == "__main__":
    print(main(sys.argv[1:]))
