# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that are measured: what they are started with, how long they take, and how much memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from ...scenario.cloud import Failure

PEER = "community.libvirt"
# What PyPI has of the peer: a whole package of collections, of which this is one.
_PEER_PACKAGE = "ansible==12.3.0"
_SHARE = "seconds and MiB more in parse_sources: "


@dataclass(frozen=True)
class Run:
    """A command that has ended well: seconds; the processor's seconds in it; the most memory of a process of it; and of
    the seconds those in which Ansible had its inventory sources read, and how much more memory than before it had at
    most in these (None where nobody looked)."""

    seconds: float
    processor_seconds: float
    mebibytes: float
    reading_seconds: float | None = None
    reading_mebibytes: float | None = None


def unpack_peer(build: Path) -> Path | None:
    """A path for collections with the peer in it; None when it cannot be had."""
    place = build / PEER
    if not (place / "ansible_collections/community/libvirt").is_dir():
        place.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(place), _PEER_PACKAGE]
        if subprocess.run(command, check=False).returncode != 0:
            return None
        for wheel in place.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                names = [n for n in archive.namelist() if n.startswith("ansible_collections/community/libvirt/")]
                archive.extractall(place, names)
            wheel.unlink()
    return place


def peer_version(place: Path) -> str:
    """The version of the collection."""
    manifest = place / "ansible_collections/community/libvirt/MANIFEST.json"
    return str(json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"])


class Inventories:
    """The inventory files of one fleet, and the runs of ``ansible-inventory`` with them."""

    def __init__(self, place: Path, uris: Sequence[str], machines: int, collections: Sequence[Path]) -> None:
        self._place = place
        self._uris = uris
        self._machines = machines
        configuration = place / "ansible.cfg"
        configuration.touch()
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON"))},
            "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join(map(str, collections)),
            "ANSIBLE_LOCAL_TEMP": str(place / "tmp"),
            "ANSIBLE_HOME": str(place / "home"),
            "ANSIBLE_CONFIG": str(configuration),
            # As with any installed program; the first run fills it.
            "PYTHONPYCACHEPREFIX": str(place / "pycache"),
            "LC_ALL": "C.UTF-8",
        }

    def ours(self, options: Mapping[str, object], more: Sequence[str] = ()) -> Run:
        """The plugin of this collection, with these options besides. more: URIs of hypervisors that will not answer."""
        entries = [{"name": f"hv{number:02}", "uri": uri} for number, uri in enumerate([*more, *self._uris], 1)]
        path = self._place / "cloud.virt.yml"
        fixed = {"plugin": "brine.virt.domains", "hypervisors": entries, "timeout": 300}
        fixed["known_hosts"] = str(self._place / "known_hosts")
        path.write_text(yaml.safe_dump({**fixed, **options}), encoding="utf-8")
        return self._run([path], self._machines)

    def peer(self) -> Run:
        """The peer's plugin, which asks one hypervisor a file."""
        paths = []
        for number, uri in enumerate(self._uris, 1):
            path = self._place / f"peer{number:02}.yml"
            path.write_text(yaml.safe_dump({"plugin": "community.libvirt.libvirt", "uri": uri}), encoding="utf-8")
            paths.append(path)
        return self._run(paths, self._machines)

    def nothing(self) -> Run:
        """Ansible alone: an inventory without hosts."""
        path = self._place / "nothing.ini"
        path.write_text("", encoding="utf-8")
        return self._run([path], 0)

    def floor(self) -> Run:
        """libvirt alone."""
        program = Path(__file__).with_name("floor.py")
        text, run = _timed([sys.executable, "-P", str(program), *self._uris], self._environment, self._place)
        if int(text) != self._machines:
            raise Failure(f"libvirt listed {text} machines instead of {self._machines}")
        return run

    def _run(self, paths: Sequence[Path], machines: int) -> Run:
        sources = [word for path in paths for word in ("-i", str(path))]
        program = Path(__file__).with_name("ansible_inventory.py")
        text, run = _timed([sys.executable, "-P", str(program), "--list", *sources], self._environment, self._place)
        found = len(json.loads(text).get("_meta", {}).get("hostvars", {}))
        if found != machines:
            raise Failure(f"ansible-inventory listed {found} machines instead of {machines}")
        return run


def _timed(command: Sequence[str], environment: Mapping[str, str], place: Path) -> tuple[str, Run]:
    with (place / "out").open("w+b") as out, (place / "err").open("w+b") as err:
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            _pid, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        complaints = err.read().decode(errors="replace")
        if process.returncode != 0:
            raise Failure(f"{' '.join(command)[:300]}: exit {process.returncode}\n{complaints[-3000:]}")
        told = [line for line in complaints.splitlines() if line.startswith(_SHARE)]
        reading = map(float, told[-1].removeprefix(_SHARE).split()) if told else ()
        return out.read().decode(), Run(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, *reading)
