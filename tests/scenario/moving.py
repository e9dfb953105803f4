# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenarios about moving machines have in common: the moves, and the checks on both hypervisors by other
tools."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import signal
import subprocess
import time
import typing as t
from dataclasses import dataclass

from .cloud import COMMAND_SECONDS, Answer, Cloud, must

# So slow that there is time for trouble before a machine has moved.
CRAWL_MIB = 1
_SECONDS_UNTIL_IT_FLOWS = 60
_SECONDS_UNTIL_ALL_IS_ROLLED_BACK = 120


def home(cloud: Cloud, name: str) -> str:
    """The only hypervisor that knows a machine, running or not."""
    homes = [host for host in cloud.hosts if name in cloud.on(host, "virsh list --all --name").split()]
    must(len(homes) == 1, f"{name} is defined on {homes}")
    return homes[0]


def migrate(cloud: Cloud, source: str, *words: str, **options: t.Any) -> tuple[Answer, dict[str, t.Any]]:
    """The module virt_migrate on a hypervisor: what was said, and its result as data."""
    answer = cloud.ansible(source, "brine.virt.virt_migrate", json.dumps(options), *words)
    return answer, result_of(answer)


def result_of(answer: Answer) -> dict[str, t.Any]:
    """The module's result in what Ansible said."""
    start = answer.text.find("=> {")
    must(start >= 0, answer.text)
    return dict(json.JSONDecoder().raw_decode(answer.text[start + 3 :])[0])


def volumes(cloud: Cloud, host: str, name: str) -> set[str]:
    """The volumes of a machine that a host has, by their names in all pools."""
    text = cloud.on(
        host,
        "for p in $(virsh pool-list --name); do virsh pool-refresh $p >/dev/null; virsh vol-list $p; done",
    )
    return {line.split()[0] for line in text.splitlines() if line.strip().startswith(f"{name}-")}


def has_moved(cloud: Cloud, name: str, source: str, target: str, had: set[str]) -> None:
    """A machine is on the target and nowhere else, and its volumes went with it."""
    must(home(cloud, name) == target, f"{name} is not on {target}")
    must(volumes(cloud, source, name) == set(), f"{source} still has {volumes(cloud, source, name)}")
    must(volumes(cloud, target, name) == had, f"{target} has {volumes(cloud, target, name)}, not {had}")
    xml = cloud.on(target, f"virsh dumpxml --inactive {name}")
    must("moving" not in xml, f"a note of the move is left in {xml}")


def address(cloud: Cloud, host: str, name: str) -> str:
    """What the lab's DHCP server has given to a machine's first nic."""
    found = re.search(r"52:54:[0-9a-f:]{11}", cloud.on(host, f"virsh domiflist {name}"))
    must(found is not None, f"{name} has no nic")
    mac = found.group(0) if found else ""
    end = time.monotonic() + 90
    while True:
        leases = (cloud.lab_files / "dnsmasq.leases").read_text(encoding="utf-8")
        given = re.findall(rf"^(\d+) {mac} (\S+)", leases, re.MULTILINE)
        if given:
            # A guest that boots for the first time once more is another client to the server. The newest ends last.
            return str(max(given, key=lambda lease: int(lease[0]))[1])
        must(time.monotonic() < end, f"{name} does not ask for an address")
        time.sleep(1)


@dataclass(frozen=True)
class Life:
    """A running machine: its process on its host, and where it answers."""

    name: str
    host: str
    pid: str
    address: str

    def goes_on(self, cloud: Cloud) -> None:
        """It is the same process as before, libvirt says that it runs, and it answers."""
        must(home(cloud, self.name) == self.host, f"{self.name} has left {self.host}")
        state = cloud.on(self.host, f"virsh domstate {self.name}").strip()
        must(state == "running", f"{self.name} is {state}")
        must(_pid(cloud, self.host, self.name) == self.pid, f"{self.name} is another process than before")
        answers(cloud, self.address)


def life(cloud: Cloud, name: str) -> Life:
    """Of a machine that runs and has come up."""
    host = home(cloud, name)
    where = address(cloud, host, name)
    answers(cloud, where)
    return Life(name, host, _pid(cloud, host, name), where)


def forget(cloud: Cloud, name: str) -> None:
    """Take a scenario's own machine away, wherever it is and whatever is left of it."""
    for host in cloud.hosts:
        cloud.on(
            host,
            f"virsh destroy {name}; virsh undefine {name}; rm -f /var/lib/libvirt/images/{name}-*;"
            " virsh pool-refresh default",
        )


def hand_over(cloud: Cloud, source: str, target: str, place: str) -> None:
    """Copy a directory to another hypervisor, over what is there, as if both had it mounted."""
    out = shlex.join(cloud.ssh(source, f"tar -C {place} -c ."))
    into = shlex.join(cloud.ssh(target, f"mkdir -p {place} && rm -rf {place}/* && tar -C {place} -x"))
    answer = cloud.run("bash", "-o", "pipefail", "-c", f"{out} | {into}")
    must(answer.status == 0, answer.text)


def answers(cloud: Cloud, where: str) -> None:
    """A machine answers a ping."""
    # Two hosts ask, as one of them is where it runs.
    for host in cloud.hosts:
        cloud.on(host, f"for i in $(seq 60); do ping -q -c 1 -W 1 {where} && exit; sleep 1; done; exit 1")


def _pid(cloud: Cloud, host: str, name: str) -> str:
    return cloud.on(host, f"cat /run/libvirt/qemu/{name}.pid").strip()


def refused(cloud: Cloud, name: str, target: str, words: str, **options: t.Any) -> None:
    """Before anything is changed, in check mode and in the real run alike, with these words."""
    source = home(cloud, name)
    before = cloud.states(source, target)
    for mode in (["--check"], []):
        answer, result = migrate(cloud, source, *mode, name=name, target=target, **options)
        must(answer.status != 0 and re.search(words, result["msg"]) is not None, f"not {words!r}: {answer.text}")
        must(cloud.states(source, target) == before, "something has changed")


class UnderWay:
    """A run of Ansible that is under way."""

    def __init__(self, cloud: Cloud, *command: str) -> None:
        with cloud.modules_in_files():
            self._process = subprocess.Popen(
                command,
                cwd=cloud.root,
                env=cloud.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def interrupt(self) -> None:
        """What Ctrl-C does: the signal goes to all processes of the terminal's group."""
        with contextlib.suppress(ProcessLookupError):
            subprocess.run(["kill", f"-{signal.SIGINT.value}", "--", f"-{self._process.pid}"], check=False)

    def end(self) -> Answer:
        """What the run says when it has ended."""
        output, _nothing = self._process.communicate(timeout=COMMAND_SECONDS)
        return Answer(self._process.returncode, output.decode(errors="replace"))

    def stop(self) -> None:
        """End it, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Move(UnderWay):
    """A run of virt_migrate that is under way."""

    def __init__(self, cloud: Cloud, source: str, name: str, options: dict[str, t.Any]) -> None:
        self.cloud = cloud
        self.source = source
        self.name = name
        words = ["-m", "brine.virt.virt_migrate", "--become", "-a", json.dumps({"name": name, **options})]
        super().__init__(cloud, str(cloud.bin / "ansible"), *cloud.sources(live=False), source, *words)

    def wait_until_it_flows(self) -> None:
        """Something of the machine has been sent."""
        flows = f"virsh domjobinfo {self.name} 2>/dev/null | grep -Eq '(Data|File|Memory) processed: +[1-9]'"
        answer = self.cloud.lab(
            "ssh",
            self.source,
            f"for i in $(seq {5 * _SECONDS_UNTIL_IT_FLOWS}); do {flows} && exit; sleep 0.2; done; exit 1",
        )
        if answer.status != 0:
            raise AssertionError(f"nothing flows: {self.end().text}")


@contextlib.contextmanager
def on_its_way(cloud: Cloud, name: str, target: str, **options: t.Any) -> t.Iterator[Move]:
    """A machine is being moved, slowly, and some of it is on the target already."""
    move = Move(cloud, home(cloud, name), name, {"target": target, "bandwidth": CRAWL_MIB, **options})
    try:
        move.wait_until_it_flows()
        yield move
    finally:
        move.stop()


def rolled_back(cloud: Cloud, source: str, target: str, before: tuple[str, ...]) -> None:
    """Both hypervisors come to be as they were; whoever rolls back may need some time."""
    end = time.monotonic() + _SECONDS_UNTIL_ALL_IS_ROLLED_BACK
    while (found := cloud.states(source, target)) != before:
        lines = [set(a.splitlines()) ^ set(b.splitlines()) for a, b in zip(found, before, strict=True)]
        must(time.monotonic() < end, f"other than before on {source} and {target}: {lines}")
        time.sleep(2)


class Counting:
    """A loop over one SSH connection into a guest that says a number and the guest's boot id, five times a second."""

    _LOOP = "i=0; while :; do i=$((i+1)); echo $i $(cat /proc/sys/kernel/random/boot_id); sleep 0.2; done"

    def __init__(self, cloud: Cloud, name: str) -> None:
        self._cloud = cloud
        self._name = name
        self._file = cloud.build / f"counting-{name}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Log in, and see that it counts."""
        command = [*ssh(self._cloud, self._name), self._LOOP]
        with self._file.open("wb") as out:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        self.more(3)

    def _lines(self) -> list[str]:
        text = self._file.read_text(encoding="utf-8")
        return text[: text.rfind("\n") + 1].splitlines()

    def more(self, count: int = 5) -> None:
        """It counts on, in one row and since one boot."""
        must(self._file.exists(), "nobody counts")
        before, end = len(self._lines()), time.monotonic() + 60
        while len(self._lines()) < before + count:
            must(self._process is not None and self._process.poll() is None, f"it ended: {self._lines()[-3:]}")
            must(time.monotonic() < end, f"it counts no more: {self._lines()[-3:]}")
            time.sleep(0.2)
        pairs = [line.split() for line in self._lines()]
        must([int(pair[0]) for pair in pairs] == list(range(1, len(pairs) + 1)), f"it left numbers out: {pairs}")
        must(len({pair[1] for pair in pairs}) == 1, f"{self._name} has booted meanwhile")

    def stop(self) -> None:
        """End the connection, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._file.unlink(missing_ok=True)


@contextlib.contextmanager
def counting(cloud: Cloud, name: str) -> t.Iterator[Counting]:
    """A loop over SSH that counts during the block."""
    loop = Counting(cloud, name)
    try:
        loop.start()
        yield loop
    finally:
        loop.stop()


def ssh(cloud: Cloud, name: str) -> list[str]:
    """The command that logs in to a machine as Ansible does, over a connection of its own."""
    known = cloud.listed()["_meta"]["hostvars"][name]
    key = str(cloud.lab_files / "id_ed25519")
    words = shlex.split(known["ansible_ssh_common_args"])
    who = f"{known['ansible_user']}@{known['ansible_host']}"
    return ["ssh", "-i", key, *words, "-o", "ControlPath=none", "-o", "BatchMode=yes", who]


def inside(cloud: Cloud, name: str, command: str) -> str:
    """A shell command as root in a machine; it has to end well."""
    answer = cloud.run(*ssh(cloud, name), f"sudo sh -c {shlex.quote(command)}")
    must(answer.status == 0, f"{name}: {command}: {answer.text}")
    return answer.text
