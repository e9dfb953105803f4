# SPDX-License-Identifier: GPL-3.0-or-later
"""A libvirt that is frozen, and a host that is cut off: named after a limit, and the others are shown."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ...cloud import Answer, Cloud, must
from ...runner import ScenarioRun
from ...trouble import cut

NEEDS = ("hypervisors", "tiny", "tiny1")
STUCK = "hv2"
PLAYBOOKS = ("list", "query", "host_info")
DAEMON = "$(pidof libvirtd || pidof virtqemud)"
# What opening a connection may take, and Ansible around it on a busy machine.
FROZEN_SECONDS = 45
# virt_answer_seconds as set here, and Ansible around it.
ANSWER_SECONDS = 20
CUT_SECONDS = 60
SPEC: dict[str, t.Any] = {"name": "thaw", "vcpus": 1, "memory": 128, "image": "tiny", "start": False}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step(
        f"{', '.join(PLAYBOOKS)} with a frozen libvirt: named, the other one shown", lambda: _all_frozen(cloud)
    )
    scenario.step("the inventory with a cache and a frozen libvirt: its machines as they were", lambda: _cached(cloud))
    scenario.step("provision, check mode, with a frozen libvirt: named in time", lambda: _provision(cloud))
    scenario.step("virt_init on it fails with one sentence", lambda: _init(cloud))
    scenario.step("list with a host that is cut off under an open connection: named in time", lambda: _cut(cloud))


@contextlib.contextmanager
def frozen(cloud: Cloud, host: str) -> t.Iterator[None]:
    """libvirt's daemon takes connections and answers nobody during the block."""
    cloud.on(host, f"virsh list >/dev/null; kill -STOP {DAEMON}")
    try:
        yield
    finally:
        cloud.on(host, f"kill -CONT {DAEMON}")


def _in_time(seconds: float, run: t.Callable[[], Answer]) -> Answer:
    began = time.monotonic()
    answer = run()
    took = time.monotonic() - began
    must(took < seconds, f"it took {took:.0f} s: {answer.text}")
    return answer


def _all_frozen(cloud: Cloud) -> None:
    """Side by side: most of it is waiting."""
    with frozen(cloud, STUCK), ThreadPoolExecutor(len(PLAYBOOKS)) as pool:
        list(pool.map(lambda name: _frozen(cloud, name), PLAYBOOKS))


def _frozen(cloud: Cloud, name: str) -> None:
    answer = _in_time(FROZEN_SECONDS + 10 * len(PLAYBOOKS), lambda: cloud.play(name, live=False))
    must("did not answer within 15 s" in answer.one_line, answer.text)
    must(answer.status == 0 and ("tiny1" in answer.text or name == "host_info"), answer.text)


def _cached(cloud: Cloud) -> None:
    home = cloud.listed()["_meta"]["hostvars"]["tiny1"]["virt_hypervisor"]
    source = cloud.inventory / "cached.virt.yml"
    live = (cloud.inventory / "cloud.virt.yml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as cache:
        cached = f"cache: true\ncache_plugin: ansible.builtin.jsonfile\ncache_connection: {cache}\ncache_timeout: 1\n"
        command = (str(cloud.bin / "ansible-inventory"), *cloud.sources(live=False), "-i", str(source))
        try:
            source.write_text(f"{live}\n{cached}", encoding="utf-8")
            fresh = cloud.run(*command, "--host", "tiny1")
            must(fresh.status == 0 and "virt_stale_since" not in fresh.text, fresh.text)
            time.sleep(2)  # then the answer in the cache is too old for anything else
            with frozen(cloud, home):
                old = _in_time(FROZEN_SECONDS, lambda: cloud.run(*command, "--host", "tiny1"))
                must(old.status == 0 and "virt_stale_since" in old.text, old.text)
                must(f"{home} did not answer, its machines are listed as of" in old.one_line, old.text)
                source.write_text(f"{live}\n{cached}strict_hypervisors: true\n", encoding="utf-8")
                time.sleep(2)
                strict = _in_time(FROZEN_SECONDS, lambda: cloud.run(*command, "--graph"))
                must(f"Hypervisor {home} did not answer" in strict.one_line, strict.text)
                # The group is there all the same: the inventory of the hosts has it too.
                must("tiny1" not in strict.text and "listed as of" not in strict.text, strict.text)
        finally:
            source.unlink(missing_ok=True)


def _provision(cloud: Cloud) -> None:
    given = {"virt_vms": [{**SPEC, "hypervisor": "hv1"}], "virt_images": {"tiny": {"src": cloud.images["tiny"]}}}
    with frozen(cloud, STUCK):
        words = ("-e", json.dumps(given), "--check")
        answer = _in_time(FROZEN_SECONDS + 15, lambda: cloud.play("provision", *words, live=False))
    must(f"{STUCK} is left out" in answer.one_line and answer.status == 0, answer.text)


def _init(cloud: Cloud) -> None:
    with frozen(cloud, STUCK):
        answer = _in_time(FROZEN_SECONDS, lambda: cloud.init(STUCK, **SPEC)[0])
    must(answer.status != 0 and "did not answer within 15 s" in answer.one_line, answer.text)


def _cut(cloud: Cloud) -> None:
    cloud.play_well("list", live=False)
    with cut(cloud, STUCK):
        words = ("-e", f"virt_answer_seconds={ANSWER_SECONDS}")
        answer = _in_time(CUT_SECONDS, lambda: cloud.play("list", *words, live=False))
    must(STUCK in answer.text and "tiny1" in answer.text, answer.text)
