# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's cloud as a user drives it: playbooks of the installed collection, and other tools to judge the outcome."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import subprocess
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# A command that takes longer than this hangs.
COMMAND_SECONDS = 1500
# The hosts of most scenarios. Ansible logs in to the second one as a user with sudo.
FLEET: tuple[str, ...] = ("hv1", "hv2")
SUDO_HOST = "hv2"


class Failure(Exception):
    """Something is not as it should be; the text says what."""


def must(claim: bool, words: str) -> None:
    """Raise a Failure with these words unless the claim holds."""
    if not claim:
        raise Failure(words)


def _without_mark(value: dict[str, t.Any]) -> t.Any:
    """Text that Ansible must not take for a template: in JSON it stands under a key of its own."""
    return value["__ansible_unsafe"] if set(value) == {"__ansible_unsafe"} else value


@dataclass(frozen=True)
class Answer:
    """What a command said; one_line has its words with single blanks, since Ansible breaks lines as it likes."""

    status: int
    text: str

    @property
    def one_line(self) -> str:
        return " ".join(self.text.split())

    def recap(self, word: str) -> int:
        """The sum of a figure of the play recap (``changed``, ``failed``, ``unreachable``) over all hosts."""
        return sum(int(figure) for figure in re.findall(rf"\b{word}=(\d+)", self.text))


class Cloud:
    """A lab of this checkout, and the collection installed from its tarball: with a name, a lab beside the others.

    hosts: those that the inventory has now. The lab may have more, of another scenario. pipelining: whether Ansible
    hands modules to Python without a file, as many users have it, and in half the time; by default it does not.
    is_up: that all hosts of the lab run was seen since the scenario began. whole: all scenarios of the lab are run, so
    that what a later one needs can be made beside what the first one needs.
    tools: what the set-up has installed. build: files of this cloud alone, so that two can be driven at once.
    """

    def __init__(self, root: Path, name: str = "") -> None:
        self.root = root
        self.tools = root / ".build"
        self.build = self.tools / f"cloud-{name}" if name else self.tools
        self.build.mkdir(parents=True, exist_ok=True)
        self.bin = self.tools / "venv-demo" / "bin"
        self.inventory = self.build / "scenario-inventory"
        self.lab_command = [str(root / "tests/lab/lab"), *(["--name", name] if name else [])]
        self.lab_files = self.tools / (f"lab-{name}" if name else "lab")
        self.lab_inventory = self.lab_files / "inventory"
        self.hosts: tuple[str, ...] = FLEET
        self.installed = False
        self.pipelining = False
        self.is_up = False
        self.whole = False

    def use(self, hosts: tuple[str, ...] = FLEET) -> None:
        """From now on the inventory has these hosts of the lab and no others."""
        self.hosts = hosts
        text = (self.lab_inventory / "hosts.yml").read_text(encoding="utf-8")
        for block in re.findall(r"^    hv\d+:\n(?:      .*\n)+", text, re.MULTILINE):
            if block.strip().partition(":")[0] not in hosts:
                text = text.replace(block, "")
        self.inventory.mkdir(parents=True, exist_ok=True)
        (self.inventory / "hosts.yml").write_text(text, encoding="utf-8")
        live = (self.lab_inventory / "cloud.virt.yml").read_text(encoding="utf-8")
        (self.inventory / "cloud.virt.yml").write_text(live, encoding="utf-8")

    def lab_hosts(self) -> tuple[str, ...]:
        """All hosts of the lab; none when it is down."""
        path = self.lab_inventory / "hosts.yml"
        if not path.exists():
            return ()
        return tuple(re.findall(r"^    (hv\d+):$", path.read_text(encoding="utf-8"), re.MULTILINE))

    @property
    def environment(self) -> dict[str, str]:
        """A user's environment, with nothing of the one who runs the tests but the path."""
        return {
            **os.environ,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "ANSIBLE_COLLECTIONS_PATH": str(self.build / "installed"),
            "ANSIBLE_HOME": str(self.build / "ansible-home"),
            "ANSIBLE_LOCALHOST_WARNING": "False",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "False",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": str(self.pipelining),
        }

    @contextlib.contextmanager
    def modules_in_files(self) -> t.Iterator[None]:
        """What runs during the block can be killed by the name of the file that Ansible makes of it by default."""
        before, self.pipelining = self.pipelining, False
        try:
            yield
        finally:
            self.pipelining = before

    def run(self, *command: str, stdin: str | bytes | None = None) -> Answer:
        """Run a command and keep all that it says, whatever its status."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        result = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment,
            input=data,
            stdin=None if data is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return Answer(result.returncode, result.stdout.decode(errors="replace"))

    def install(self) -> None:
        """The collection of this checkout, built into a tarball and installed from it."""
        tree = self.build / "demo" / "ansible_collections" / "brine" / "virt"
        for command in (
            (str(self.bin / "python"), "-m", "tests.gate.tree", str(tree)),
            (str(self.root / "tests/gate/install"), str(self.bin), str(tree), str(self.build)),
        ):
            answer = self.run(*command)
            must(answer.status == 0, answer.text)
        self.installed = True

    def sources(self, live: bool = True) -> list[str]:
        """The inventory options: the hosts, and with ``live`` the machines as well."""
        words = ["-i", str(self.inventory / "hosts.yml")]
        return [*words, "-i", str(self.inventory / "cloud.virt.yml")] if live else words

    def play(self, name: str, *words: str, live: bool = True) -> Answer:
        """Run a playbook of the collection."""
        return self.run(str(self.bin / "ansible-playbook"), *self.sources(live), f"brine.virt.{name}", *words)

    def play_well(self, name: str, *words: str, live: bool = True) -> Answer:
        """Run a playbook that has to end well."""
        answer = self.play(name, *words, live=live)
        must(answer.status == 0, answer.text)
        return answer

    def ansible(self, pattern: str, module: str, arguments: str = "", *words: str) -> Answer:
        """One module on some hosts: on hypervisors as root, and on machines over the live inventory."""
        hypervisors = pattern in ("hypervisors", *self.lab_hosts())
        # To ask all hypervisors for their machines takes longer than most modules.
        command = [str(self.bin / "ansible"), *self.sources(live=not hypervisors), pattern, "-m", module, *words]
        if hypervisors:
            command.append("--become")
        return self.run(*command, *(["-a", arguments] if arguments else []))

    def listed(self) -> dict[str, t.Any]:
        """The live inventory as data."""
        command = [str(self.bin / "ansible-inventory"), *self.sources(), "--list"]
        result = subprocess.run(command, cwd=self.root, env=self.environment, capture_output=True, check=False)
        must(result.returncode == 0, result.stderr.decode(errors="replace"))
        return dict(json.loads(result.stdout, object_hook=_without_mark))

    def lab(self, *words: str) -> Answer:
        """The lab's own program."""
        return self.run(*(self.ssh(*words[1:]) if words[0] == "ssh" else [*self.lab_command, *words]))

    def ssh(self, host: str, *words: str) -> list[str]:
        """The command that the lab's program becomes for `lab ssh`: thousands of times, so without that program."""
        return ["ssh", "-F", str(self.lab_files / "ssh_config"), host, *words]

    def lab_well(self, *words: str) -> str:
        """The lab's own program, which has to end well."""
        answer = self.lab(*words)
        must(answer.status == 0, answer.text)
        return answer.text

    def on(self, host: str, command: str) -> str:
        """A shell command on a host of the lab, past Ansible; it has to end well."""
        answer = self.lab("ssh", host, command)
        must(answer.status == 0, f"{host}: {command}\n{answer.text}")
        return answer.text

    def state(self, host: str) -> str:
        """All machines, volumes and files in pools of a host, as virsh and ls list them."""
        return self.on(
            host,
            "virsh list --all --name | sort; for m in $(virsh list --all --name); do virsh dumpxml --inactive $m; done;"
            " for p in $(virsh pool-list --all --name); do virsh pool-refresh $p >/dev/null; virsh vol-list $p;"
            " ls -A $(virsh pool-dumpxml $p | sed -n 's:.*<path>\\(.*\\)</path>.*:\\1:p'); done;"
            " virsh list --name --autostart",
        )

    def states(self, *hosts: str) -> tuple[str, ...]:
        """The states of several hosts, asked at once."""
        with ThreadPoolExecutor(len(hosts)) as pool:
            return tuple(pool.map(self.state, hosts))

    def state_of_all(self) -> str:
        """The state of every host."""
        return "\n".join(self.states(*self.hosts))

    def init(self, host: str, *, check: bool = False, **options: t.Any) -> tuple[Answer, dict[str, t.Any]]:
        """The module virt_init on one hypervisor: what was said, and its result as data."""
        words = ["--check"] if check else []
        answer = self.ansible(host, "brine.virt.virt_init", json.dumps(options), *words)
        start = answer.text.find("=> {")
        must(start >= 0, answer.text)
        return answer, json.JSONDecoder().raw_decode(answer.text[start + 3 :])[0]

    @functools.cached_property
    def images(self) -> dict[str, str]:
        """The guest images that most scenarios need by name, as paths on this machine."""
        return self.build_images()

    def build_images(self, *names: str) -> dict[str, str]:
        """Guest images of these names, or those that most scenarios need, as paths on this machine."""
        # The program says its progress before its answer.
        text = self.lab_well("images", *names)
        return {name: image["path"] for name, image in json.loads(text[text.index("{") :]).items()}
