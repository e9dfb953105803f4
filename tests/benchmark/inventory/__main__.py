# SPDX-License-Identifier: GPL-3.0-or-later
"""How long ``ansible-inventory --list`` takes with many machines, beside the peer and beside libvirt alone.

No lab and no privileges: libvirt's test driver answers behind a daemon of the benchmark's own, over a line with a round
trip time. Needs libvirt's daemon (or apt-get, to unpack it), and PyPI for the peer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import typing as t
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...scenario.cloud import Failure
from .commands import PEER, Inventories, Run, peer_version, unpack_peer
from .daemon import find_libvirtd, running_daemon, running_line, silent_port
from .fleet import write_hypervisor
from .table import Fleet, growth_verdict, silent_verdict, table

ROOT = Path(__file__).resolve().parents[3]
COLLECTIONS = Path(__file__).absolute().parents[6]
FLEETS = ("1x1000", "50x20")
MILLISECONDS = (0.0, 10.0)
WAYS = ("brine.virt", PEER, "floor", "nothing")
# The same hypervisor with twice as many machines.
SMALL_FLEET, LARGE_FLEET = Fleet(1, 1000, 10.0), Fleet(1, 2000, 10.0)
SILENT_FLEET = Fleet(50, 20, 10.0)
SILENT_SECONDS = 5.0


class Cloud:
    """Hypervisors of libvirt's test driver behind one daemon."""

    def __init__(self, place: Path, port: int, collections: Sequence[Path], *, managed: bool = False) -> None:
        self._managed = managed
        self._place = place
        self._port = port
        self._collections = collections

    @contextlib.contextmanager
    def inventories(self, fleet: Fleet) -> Iterator[Inventories]:
        """The inventories of a fleet for the block."""
        home = self._place / f"{fleet.hypervisors}x{fleet.machines}"
        if not home.exists():
            home.mkdir()
            home.chmod(0o755)
            for number in range(1, fleet.hypervisors + 1):
                write_hypervisor(home / f"{number}.xml", f"m{number:03}", fleet.machines, managed=self._managed)
        with running_line(self._port, fleet.milliseconds) as port:
            uris = [f"test+tcp://127.0.0.1:{port}{home}/{number}.xml" for number in range(1, fleet.hypervisors + 1)]
            yield Inventories(self._place, uris, fleet.hypervisors * fleet.machines, self._collections)


def measure(
    cloud: Cloud, fleet: Fleet, ways: Sequence[str], rounds: int, options: Mapping[str, t.Any]
) -> dict[str, list[Run]]:
    """The runs of each way. A round begins with another way than the one before it. options: more, of our plugin."""
    runs: dict[str, list[Run]] = {way: [] for way in ways}
    with cloud.inventories(fleet) as inventories:
        works: dict[str, t.Callable[[], Run]] = {
            "brine.virt": lambda: inventories.ours(options),
            PEER: inventories.peer,
            "floor": inventories.floor,
            "nothing": inventories.nothing,
        }
        for way in set(ways) - {PEER}:
            works[way]()  # warms caches, and is not counted
        for number in range(rounds):
            print(f"   {fleet.name}, round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            turn = number % len(ways)
            for way in (*ways[turn:], *ways[:turn]):
                runs[way].append(works[way]())
    return runs


def measure_silent(cloud: Cloud, fleet: Fleet) -> tuple[Run, Run]:
    """The fleet as it is, and with one hypervisor more, which takes the connection and never answers."""
    options = {"timeout": SILENT_SECONDS}
    with cloud.inventories(fleet) as inventories, silent_port() as port:
        return inventories.ours(options), inventories.ours(options, [f"test+tcp://127.0.0.1:{port}/default"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says. Returns the exit status: 1 when something could not be measured."""
    parser = argparse.ArgumentParser(prog="tests/benchmark/run --inventory", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured (default 3)")
    parser.add_argument("--fleet", action="append", metavar="HxM", help=f"hypervisors x machines on each ({FLEETS})")
    parser.add_argument("--milliseconds", action="append", type=float, help=f"round trip times {MILLISECONDS}")
    parser.add_argument("--way", action="append", choices=WAYS, help="only these")
    parser.add_argument("--managed", action="store_true", help="machines as this collection makes them")
    parser.add_argument("--facts", help="only these facts, with commas between them")
    words = parser.parse_args(arguments)
    # As Ctrl-C does: what was started is stopped.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    options = {} if words.facts is None else {"facts": words.facts.split(",")}
    build = ROOT / ".build"
    try:
        peer = unpack_peer(build) if words.way is None or PEER in words.way else None
        ways = [way for way in words.way or WAYS if way != PEER or peer is not None]
        if peer is None and (words.way is None or PEER in words.way):
            print(f"{PEER} cannot be had from PyPI: without it", file=sys.stderr)
        collections = [COLLECTIONS, *([peer] if peer else [])]
        fleets = [
            Fleet(int(text.partition("x")[0]), int(text.partition("x")[2]), milliseconds)
            for text in words.fleet or FLEETS
            for milliseconds in words.milliseconds or MILLISECONDS
        ]
        with tempfile.TemporaryDirectory(prefix="brine-virt-benchmark-") as place, contextlib.ExitStack() as stack:
            Path(place).chmod(0o755)
            daemon = Path(place, "daemon")
            daemon.mkdir()
            port = stack.enter_context(running_daemon(find_libvirtd(build), daemon))
            cloud = Cloud(Path(place), port, collections, managed=words.managed)
            results = [(fleet, measure(cloud, fleet, ways, words.rounds, options)) for fleet in fleets]
            large = None
            if SMALL_FLEET in fleets and {"brine.virt", "nothing"}.issubset(ways):
                large = measure(cloud, LARGE_FLEET, ["brine.virt", "nothing"], words.rounds, options)
            silent = measure_silent(cloud, SILENT_FLEET) if SILENT_FLEET in fleets else None
    except Failure as exc:
        print(f"FAILED: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    by_fleet: dict[Fleet, Mapping[str, list[Run]]] = dict(results)
    if large is not None:
        by_fleet[LARGE_FLEET] = large
    data = {
        fleet.name: {way: [vars(run) for run in runs] for way, runs in ways.items()} for fleet, ways in by_fleet.items()
    }
    build.mkdir(exist_ok=True)
    (build / "benchmark-inventory.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    print(f"\nansible-inventory --list, medians of {words.rounds}; the peer is {PEER}", end="")
    print(f" {peer_version(peer)}:\n" if peer else ", which is not here:\n")
    print(table(results))
    if large is not None:
        print(growth_verdict(SMALL_FLEET, LARGE_FLEET, by_fleet))
    if silent:
        print(silent_verdict(SILENT_FLEET, *silent, SILENT_SECONDS))
    print("\nAll figures: .build/benchmark-inventory.json", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
