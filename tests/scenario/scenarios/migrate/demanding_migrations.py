# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves that take more: a guest that writes all the while, and an image that the target lacks."""

from __future__ import annotations

import json
import re

from ...cloud import Cloud, must
from ...moving import counting, forget, has_moved, home, inside, life, migrate, volumes
from ...needs import TINY, WEB, store_tiny
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny", "web1")
PLACE = "/var/tmp/writing"
# Writes files with bytes of chance, each with its checksum, until it is told to stop.
WRITER = f"""
mkdir -p {PLACE}; cd {PLACE}
n=0
while [ ! -e stop ]; do
    n=$((n + 1))
    head -c 300000 /dev/urandom > new
    sum=$(sha256sum < new)
    mv new file$((n % 40)); echo "${{sum%% *}}  file$((n % 40))" > sum$((n % 40)); echo $n > count
done
"""


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step("a guest that writes all the time loses nothing", lambda: _writing(cloud))
    scenario.step("an image that the target lacks is copied before the machine", lambda: _image(cloud))


def _writing(cloud: Cloud) -> None:
    here = home(cloud, WEB)
    there = next(host for host in cloud.hosts if host != here)
    had = volumes(cloud, here, WEB)
    # From a file: systemd would put in its own variables.
    inside(cloud, WEB, f"rm -rf {PLACE}; mkdir {PLACE}; cat > {PLACE}/writer <<'END'\n{WRITER}\nEND")
    inside(cloud, WEB, f"systemd-run --quiet --unit=writing sh {PLACE}/writer")
    try:
        with counting(cloud, WEB) as loop:
            counts = [int(inside(cloud, WEB, f"sleep 3; cat {PLACE}/count"))]
            for source, target in ((here, there), (there, here)):
                answer, result = migrate(cloud, source, name=WEB, target=target)
                must(answer.status == 0 and result["changed"], answer.text)
                has_moved(cloud, WEB, source, target, had)
                loop.more()
                counts.append(int(inside(cloud, WEB, f"cat {PLACE}/count")))
            must(counts == sorted(set(counts)), f"it did not go on writing: {counts}")
    finally:
        inside(cloud, WEB, f"touch {PLACE}/stop; while systemctl -q is-active writing; do sleep 1; done")
    checked = inside(
        cloud, WEB, f"sync; echo 3 > /proc/sys/vm/drop_caches; cd {PLACE}; cat sum* | sha256sum --check --quiet && ls"
    )
    must(len(re.findall(r"^file\d+$", checked, re.MULTILINE)) >= 3, checked)
    must(re.search("error|corrupt", inside(cloud, WEB, "dmesg | grep -i ext4 || true"), re.I) is None, "ext4 complains")
    inside(cloud, WEB, f"rm -r {PLACE}; systemctl reset-failed writing 2>/dev/null || true")


def _image(cloud: Cloud) -> None:
    here, there = cloud.hosts
    # Under a name of its own; the bytes are those of another image, and the target has that one.
    store_tiny(cloud, here, name="absent")
    try:
        answer, _result = cloud.init(here, **{**TINY, "name": "carrier", "image": "absent"})
        must(answer.status == 0, answer.text)
        alive, had = life(cloud, "carrier"), volumes(cloud, here, "carrier")
        must(_images(cloud, there) == [], f"{there} has the image already")
        answer, result = migrate(cloud, here, name="carrier", target=there)
        must(answer.status == 0, answer.text)
        must(any("copy image absent-" in action for action in result["machines"][0]["actions"]), answer.text)
        has_moved(cloud, "carrier", here, there, had)
        must(_images(cloud, there) == _images(cloud, here) != [], "the images are not the same")
        # virt_image takes the owner's right to write away. A move cannot: QEMU, which flushes it, is not root.
        must((_modes(cloud, here), _modes(cloud, there)) == (["444"], ["644"]), "the images have other modes")
        info = json.loads(
            cloud.on(there, "qemu-img info -U --output json /var/lib/libvirt/images/carrier-system.qcow2")
        )
        must("/absent-" in info["full-backing-filename"], str(info))
        must(life(cloud, "carrier").address == alive.address, "it has another address")
    finally:
        forget(cloud, "carrier")
        for host in cloud.hosts:
            cloud.ansible(host, "brine.virt.virt_image", json.dumps({"name": "absent", "state": "absent"}))


def _images(cloud: Cloud, host: str) -> list[str]:
    """What the store has under the name ``absent``: checksums of content, with names."""
    return _of_each_image(cloud, host, "sha256sum")


def _modes(cloud: Cloud, host: str) -> list[str]:
    return _of_each_image(cloud, host, "stat -c %a")


def _of_each_image(cloud: Cloud, host: str, command: str) -> list[str]:
    path = "$(virsh pool-dumpxml images | sed -n 's:.*<path>\\(.*\\)</path>.*:\\1:p')"
    return cloud.on(host, f"cd {path}; for f in absent-*; do [ ! -e $f ] || {command} $f; done").splitlines()
