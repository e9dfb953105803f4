# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs kill_driver.py on a hypervisor of the lab, with the collection as it is installed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from .cloud import Answer, Cloud, must


@dataclass(frozen=True)
class KillDriver:
    """The driver on one host, in a directory there that it has for itself."""

    host: str
    directory: str

    def install(self, cloud: Cloud) -> None:
        """Copy the driver and the collection's plugins to the host."""
        packed = subprocess.run(
            ["tar", "-C", str(cloud.build / "installed"), "-c", "ansible_collections/brine/virt/plugins"],
            stdout=subprocess.PIPE,
            check=True,
        )
        driver = (cloud.root / "tests/scenario/kill_driver.py").read_text(encoding="utf-8")
        for command, data in (
            (f"mkdir -p {self.directory} && tar -C {self.directory} -x", packed.stdout),
            (f"cat >{self.directory}/driver.py", driver),
        ):
            answer = cloud.run(*cloud.ssh(self.host, command), stdin=data)
            must(answer.status == 0, answer.text)

    def remove(self, cloud: Cloud) -> None:
        """Delete the directory."""
        cloud.on(self.host, f"rm -rf {self.directory}")

    def run(self, cloud: Cloud, *words: str) -> Answer:
        """Run the driver with its arguments: spec, number of the step, what happens."""
        return cloud.lab("ssh", self.host, f"cd {self.directory} && python3 driver.py {' '.join(words)}")

    def run_killed(self, cloud: Cloud, *words: str) -> None:
        """The same, where it has to kill itself."""
        killed = self.run(cloud, *words)
        must(killed.status in (137, 255), f"the run was to be killed, and ended with {killed.status}: {killed.text}")
