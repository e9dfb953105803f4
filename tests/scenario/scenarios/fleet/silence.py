# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor is pulled out. It is named, the others go on, nothing comes to exist twice; then it comes back."""

from __future__ import annotations

import json
import time
import typing as t

from ...cloud import Cloud, must
from ...needs import TINY, web_file
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny", "web1")
SECONDS_TO_FALL_SILENT = 60


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    home = cloud.listed()["_meta"]["hostvars"]["web1"]["virt_hypervisor"]
    silent = next(host for host in cloud.hosts if host != home)
    scenario.step(f"{silent} loses its power", lambda: _power_off(cloud, silent), vital=True)
    scenario.step("the inventory names it and lists the others", lambda: _listed(cloud, silent))
    scenario.step("query names it and shows the others", lambda: _query(cloud, silent))
    scenario.step("the picture has it with the reason, and the others", lambda: _picture(cloud, silent, home))
    scenario.step("a machine elsewhere is provisioned as usual", lambda: _goes_on(cloud, silent))
    scenario.step("a machine that may live on it is not made twice", lambda: _not_twice(cloud, silent, home))
    scenario.step("it comes back with its bridge, its pools and its machines", lambda: _comes_back(cloud, silent))


def _power_off(cloud: Cloud, host: str) -> None:
    answer, _result = cloud.init(host, **TINY, name="riser", autostart=True)
    must(answer.status == 0, answer.text)
    cloud.lab("ssh", host, "systemctl poweroff --force --force")
    end = time.monotonic() + SECONDS_TO_FALL_SILENT
    while cloud.lab("ssh", host, "true").status == 0:
        must(time.monotonic() < end, "it does not go")
        time.sleep(1)


def _listed(cloud: Cloud, silent: str) -> None:
    answer = cloud.run(str(cloud.bin / "ansible-inventory"), *cloud.sources(), "--graph")
    must(answer.status == 0 and "web1" in answer.text, answer.text)
    must("WARNING" in answer.text and silent in answer.text.split("@all")[0], answer.text)


def _query(cloud: Cloud, silent: str) -> None:
    answer = cloud.play("query")
    must("web1\n  CPU: 1" in answer.text, answer.text)
    must(silent in answer.text, answer.text)


def _picture(cloud: Cloud, silent: str, home: str) -> None:
    file = cloud.build / "scenario-silence.html"
    file.unlink(missing_ok=True)
    answer = cloud.play("picture", "-e", f"file={file}")
    must(f"{silent}: did not answer: " in answer.text, answer.text)
    page = file.read_text(encoding="utf-8")
    must(f"<b><bdi>{silent}</bdi></b> <bdi>did not answer: " in page, "its reason is not on the page")
    must(f'data-name="{silent}"' not in page and f'data-name="{home}"' in page, "it is not the only one without facts")


def _goes_on(cloud: Cloud, silent: str) -> None:
    answer = cloud.play("provision", "-e", f"@{web_file(cloud)}")
    must(answer.status == 0, answer.text)
    must(f"{silent} is left out" in answer.text, answer.text)
    must(answer.recap("changed") == 0, answer.text)


def _not_twice(cloud: Cloud, silent: str, home: str) -> None:
    spec: dict[str, t.Any] = {"name": "twin", "vcpus": 1, "memory": 128, "image": "tiny", "start": False}
    images = {"tiny": {"src": cloud.images["tiny"]}}
    answer = cloud.play("provision", "-e", json.dumps({"virt_vms": [spec], "virt_images": images}))
    must(answer.status != 0 and silent in answer.text and "twin" in answer.text, answer.text)
    must("twin" not in cloud.on(home, "virsh list --all --name").split(), "it was made all the same")
    named = {"virt_vms": [{**spec, "hypervisor": home}], "virt_images": images, "virt_provision_wait": False}
    answer = cloud.play("provision", "-e", json.dumps(named))
    must(answer.status == 0, answer.text)
    must("twin" in cloud.on(home, "virsh list --all --name").split(), "it was not made although it names its host")


def _comes_back(cloud: Cloud, host: str) -> None:
    cloud.lab_well("up", "--hosts", str(len(cloud.lab_hosts())))
    cloud.on(host, "ip -4 -brief address show dev br0 | grep -q /24")
    running = cloud.on(host, "virsh list --name").split()
    must("riser" in running, f"running are {running}")
    must({"default", "images"} <= set(cloud.on(host, "virsh pool-list --name").split()), "pools are not active")
    answer = cloud.run(str(cloud.bin / "ansible-inventory"), *cloud.sources(), "--graph")
    must("WARNING" not in answer.text and f"virt_on_{host}" in answer.text, answer.text)
