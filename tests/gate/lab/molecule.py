# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenarios of molecule in `make test` and `make test-full`; they have a lab of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ..cores import clean_environment, find_core
from ..processes import signal_group, wait_for
from ..results import Counts, Result

# Seen on this in `make test`, that a contributor's `molecule test` works; `make test-full` has the others.
QUICK = ("virt_bridge",)
# In this order on the same hosts: the first one makes hypervisors of bare ones, as the others would have to do first.
# The environment says so: KEEP_HOSTS to what takes hosts away, HOSTS_ARE_HYPERVISORS to what makes them hypervisors.
# Those of playbooks take away the machines of the ones before them, so that their order is free. But the last one
# leaves a host that is no hypervisor any more.
CHAIN = (
    *("hypervisors", "provision", "virt_provision"),
    *("adopt", "backup", "balance", "clone", "evacuate", "export", "host_info", "list", "maintenance", "migrate"),
    *("picture", "power", "purge", "query", "restore", "snapshot"),
    "retire",
)
# With packages to install and a guest to boot under emulation, beside other work.
TIMEOUT_SECONDS = 1800
LINES_SHOWN = 100


class Molecule:
    """Runs `molecule test -s NAME` for each scenario in extensions/molecule, as somebody who works on it would.

    `full`: all but QUICK, else QUICK. In the environment, SCENARIO=no leaves them out.
    """

    def __init__(self, root: Path, logs: Path, *, full: bool = False) -> None:
        """Run those of the checkout at `root`, and write the output of each to a file in `logs`."""
        self._root = root
        self._logs = logs
        self._full = full
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._ending = False

    def names(self) -> list[str]:
        """The scenarios to run; `default` makes the hosts for each of them."""
        if not self._full:
            return list(QUICK)
        there = (path.parent.name for path in self._root.glob("extensions/molecule/*/molecule.yml"))
        rest = sorted(name for name in there if name not in ("default", *QUICK, *CHAIN))
        return [*CHAIN, *rest]

    def run(self) -> list[Result]:
        """Run the scenarios one after another, and return a result for each."""
        if os.environ.get("SCENARIO") == "no":
            return [Result("molecule", "skipped", 0, Counts(skipped=1), "SCENARIO=no")]
        results: list[Result] = []
        for name in self.names():
            if self._stopped:
                break
            # Hosts that are not there yet will be bare. What failed may have left anything; whatever comes next begins
            # with bare hosts then, and leaves hypervisors again.
            hosts = {} if self._lab_is_there() else {"KEEP_HOSTS": "1"}
            if results and name in CHAIN and results[-1].verdict == "ok":
                hosts = {"KEEP_HOSTS": "1", "HOSTS_ARE_HYPERVISORS": "1"}
            results.append(self._run_one(name, hosts))
        return results

    def stop(self) -> None:
        """End the scenario that runs, and start no other."""
        self._stopped = True
        if self._process is not None and not self._ending:
            signal_group(self._process, signal.SIGTERM)

    def tear_down(self) -> list[Result]:
        """Take away the lab of a scenario that did not come to its end. A failed result when that failed, else none."""
        if not self._lab_is_there():
            return []
        began = time.monotonic()
        self._ending = True
        log = self._logs / "molecule-lab-down.log"
        status = self._call([str(self._root / "tests/lab/lab"), "--name", "molecule", "down"], log)
        if status == 0:
            return []
        note = f"exit {status}; all output: {log}"
        return [Result("lab of molecule down", "FAILED", time.monotonic() - began, Counts(failed=1), note)]

    def _lab_is_there(self) -> bool:
        return (self._root / ".build/lab-molecule").exists()

    def _run_one(self, name: str, hosts: Mapping[str, str]) -> Result:
        title = f"molecule {name}"
        log = self._logs / f"molecule-{name}.log"
        print(f"== {title}", flush=True)
        began = time.monotonic()
        kept = ["--destroy", "never"] if name in CHAIN else []
        command = ["molecule", "test", "--no-command-borders", *kept, "-s", name]
        status = self._call(command, log, hosts)
        seconds = time.monotonic() - began
        if status == 0:
            print(f"-- {title}: ok, {seconds:.0f} s", flush=True)
            return Result(title, "ok", seconds, Counts(passed=1))
        note = f"not finished after {TIMEOUT_SECONDS} s" if status is None else f"exit {status}"
        text = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LINES_SHOWN:])
        print(f"\n{text}\n-- {title}: FAILED ({note}) after {seconds:.0f} s; all output: {log}\n", flush=True)
        return Result(title, "FAILED", seconds, Counts(failed=1), note)

    def _call(self, command: list[str], log: Path, hosts: Mapping[str, str] = MappingProxyType({})) -> int | None:
        build = self._root / ".build"
        core = find_core(build, "2.19", "venv")
        if core is None:
            raise SystemExit("The tools of the gate are not installed: run `make check`, which installs them.")
        with log.open("wb") as output:
            environment = {**clean_environment(core, build), **hosts}
            self._process = subprocess.Popen(
                command,
                cwd=self._root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            status = wait_for(self._process, TIMEOUT_SECONDS, lambda: self._stopped and not self._ending)
            self._process = None
        return status
