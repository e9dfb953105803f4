# SPDX-License-Identifier: GPL-3.0-or-later
"""The image store on real hypervisors: the playbook tests/integration/lab/virt_image.yml has the proofs.

And what a person sees of an image that takes long to come.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import typing as t

from ...cloud import Answer, Cloud, must
from ...runner import ScenarioRun
from ...trouble import slow

NEEDS = ("hypervisors",)
HOST, WEB_HOST = "hv1", "hv2"
WEB_PORT = 18718
SIZE_MIB = 24
# The image takes about 13 seconds.
MBIT = 16


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step("every way for an image into the store and out of it, and every refusal", lambda: _play(cloud))
    scenario.step("the progress of an image that the controller sends is shown", lambda: _sent(cloud))
    scenario.step("and one that the hypervisor downloads", lambda: _downloaded(cloud))


def _play(cloud: Cloud) -> None:
    playbook = str(cloud.root / "tests/integration/lab/virt_image.yml")
    words = [*cloud.sources(live=False), playbook, "--extra-vars", f"lab_hypervisors={','.join(cloud.hosts)}"]
    answer = cloud.run(str(cloud.bin / "ansible-playbook"), *words)
    must(answer.status == 0 and answer.recap("failed") == 0, answer.text)


def _sent(cloud: Cloud) -> None:
    file = cloud.build / "slow.raw"
    file.write_bytes(os.urandom(SIZE_MIB * 1024 * 1024))
    try:
        _bring(cloud, "sending", name="slow", src=str(file))
    finally:
        file.unlink()


def _downloaded(cloud: Cloud) -> None:
    with _web_server(cloud, "slow.raw") as (url, sha256):
        _bring(cloud, "download", name="slow", url=url, checksum=f"sha256:{sha256}")


def _bring(cloud: Cloud, phase: str, **spec: t.Any) -> None:
    with slow(cloud, HOST, MBIT), _removed(cloud, spec["name"]):
        checked = _image(cloud, spec, "--check")
        must(f"{phase} " not in checked.text, f"check mode shows progress: {checked.text}")
        answer = _image(cloud, spec)
        lines = re.findall(
            rf"^ *{HOST}: {spec['name']}: {phase} (\d+)%, \S+ of {SIZE_MIB}\.0M, \S+ MiB/s, about .* left$",
            answer.text,
            re.MULTILINE,
        )
        percents = [int(line) for line in lines]
        must(len(percents) >= 2 and percents == sorted(set(percents)), f"{percents} are the percents of: {answer.text}")
        again = _image(cloud, spec)
        must("SUCCESS" in again.text and f"{phase} " not in again.text, again.text)


def _image(cloud: Cloud, spec: dict[str, t.Any], *words: str) -> Answer:
    answer = cloud.ansible(HOST, "brine.virt.virt_image", json.dumps(spec), *words)
    must(answer.status == 0, answer.text)
    return answer


@contextlib.contextmanager
def _removed(cloud: Cloud, name: str) -> t.Iterator[None]:
    try:
        yield
    finally:
        _image(cloud, {"name": name, "state": "absent"})


@contextlib.contextmanager
def _web_server(cloud: Cloud, name: str) -> t.Iterator[tuple[str, str]]:
    """A file with bytes of chance on a web server of another host: its address and its sha256."""
    folder, unit = "/srv/slow-web", "slow-web"
    try:
        output = cloud.on(
            WEB_HOST,
            f"mkdir -p {folder}; head -c {SIZE_MIB}M /dev/urandom > {folder}/{name}; sha256sum < {folder}/{name};"
            f" systemd-run --quiet --unit={unit} python3 -m http.server --directory {folder} {WEB_PORT}",
        )
        cloud.on(HOST, f"for i in $(seq 50); do : < /dev/tcp/{WEB_HOST}/{WEB_PORT} && exit; sleep 0.2; done; exit 1")
        yield f"http://{WEB_HOST}:{WEB_PORT}/{name}", output.split()[0]
    finally:
        cloud.on(WEB_HOST, f"systemctl stop {unit}; rm -rf {folder}")
