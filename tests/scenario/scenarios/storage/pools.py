# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools and secrets as data: made once, changed, kept while they are used, and forgotten without a loss."""

from __future__ import annotations

import base64
import json
import typing as t

from ...cloud import Answer, Cloud, must
from ...runner import ScenarioRun

NEEDS = ("hypervisors",)
HOST = "hv1"
PLACE = "/srv/brine-pools"
POOL: dict[str, t.Any] = {"name": "more", "path": f"{PLACE}/more", "owner": "root", "mode": "0750"}
SECRET: dict[str, t.Any] = {"name": "client.scenario", "usage": "ceph"}
# In the base64 that Ceph prints.
KEY, OTHER_KEY = (base64.b64encode(f"canary-{word}-of-the-scenario".encode()).decode() for word in ("first", "second"))
MACHINE: dict[str, t.Any] = {
    **{"name": "pools1", "vcpus": 1, "memory": 128, "start": False, "seed": {"method": "none"}},
    **{"disk_profile": "none", "disks": [{"name": "data", "pool": "more", "size": 16}]},
}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("a pool is made, started, and shown by virsh", lambda: _make(cloud), vital=True)
        scenario.step("its directory has the mode, now and after a change", lambda: _mode(cloud))
        scenario.step("stopped and started again", lambda: _stop(cloud))
        scenario.step("another path is refused", lambda: _moved(cloud))
        scenario.step("it is kept while a machine uses it, and its files stay when it goes", lambda: _remove(cloud))
        scenario.step("a secret is made once, and its value is nowhere", lambda: _secret(cloud))
        scenario.step("a private one is not read", lambda: _private(cloud))
        scenario.step("a pool that names it keeps it", lambda: _named(cloud))
    finally:
        _clear(cloud)


def _module(cloud: Cloud, name: str, options: t.Mapping[str, t.Any], *words: str) -> tuple[Answer, dict[str, t.Any]]:
    answer = cloud.ansible(HOST, f"brine.virt.{name}", json.dumps(options), *words)
    start = answer.text.find("=> {")
    must(start >= 0, answer.text)
    return answer, json.JSONDecoder().raw_decode(answer.text[start + 3 :])[0]


def _changed(cloud: Cloud, name: str, options: t.Mapping[str, t.Any], changed: bool) -> dict[str, t.Any]:
    """Check mode says what the run does, and the next run does nothing."""
    shown, before = _module(cloud, name, options, "--check", "--diff")
    must(shown.status == 0 and before["changed"] is changed, shown.text)
    answer, result = _module(cloud, name, options, "--diff")
    must(answer.status == 0 and result["changed"] is changed, answer.text)
    again, same = _module(cloud, name, options)
    must(again.status == 0 and same["changed"] is False, again.text)
    said = shown.text + answer.text + again.text
    must(not any(value in said for value in ("canary", KEY, OTHER_KEY)), "a value is shown")
    return result


def _refused(cloud: Cloud, name: str, options: t.Mapping[str, t.Any], words: str) -> None:
    for check in ((), ("--check",)):
        answer, result = _module(cloud, name, options, *check)
        must(answer.status != 0 and words in result["msg"], answer.text)


def _make(cloud: Cloud) -> None:
    _changed(cloud, "virt_pool", POOL, True)
    text = cloud.on(HOST, "virsh pool-info more; virsh pool-dumpxml --inactive more")
    must("running" in text and f"<path>{PLACE}/more</path>" in text, text)
    must("Autostart:      yes" in text, text)


def _mode(cloud: Cloud) -> None:
    must(cloud.on(HOST, f"stat -c %a {PLACE}/more").strip() == "750", "the mode is another one")
    _changed(cloud, "virt_pool", {"name": "more", "mode": "0711"}, True)
    must(cloud.on(HOST, f"stat -c %a {PLACE}/more").strip() == "711", "the mode is another one")


def _stop(cloud: Cloud) -> None:
    for state, words in (("inactive", "inactive"), ("active", "running")):
        _changed(cloud, "virt_pool", {"name": "more", "state": state}, True)
        must(words in cloud.on(HOST, "virsh pool-info more"), f"the pool is not {words}")


def _moved(cloud: Cloud) -> None:
    _refused(cloud, "virt_pool", {"name": "more", "path": f"{PLACE}/other"}, "A pool is never moved")


def _remove(cloud: Cloud) -> None:
    answer, _result = cloud.init(HOST, **MACHINE)
    must(answer.status == 0, answer.text)
    files = cloud.on(HOST, f"ls {PLACE}/more")
    gone = {"name": "more", "state": "absent"}
    _refused(cloud, "virt_pool", gone, "is kept: it is used by machine pools1")
    cloud.on(HOST, "virsh undefine pools1")
    _changed(cloud, "virt_pool", gone, True)
    must(cloud.on(HOST, f"ls {PLACE}/more") == files, "files have gone")
    must("more" not in cloud.on(HOST, "virsh pool-list --all --name").split(), "the pool is still there")


def _secret(cloud: Cloud) -> None:
    uuid = _changed(cloud, "virt_secret", {**SECRET, "value_base64": KEY}, True)["secrets"][0]["uuid"]
    must(cloud.on(HOST, f"virsh secret-get-value {uuid}").split()[0] == KEY, "virsh reads another value")
    _changed(cloud, "virt_secret", {**SECRET, "value_base64": OTHER_KEY}, True)
    must(cloud.on(HOST, f"virsh secret-get-value {uuid}").split()[0] == OTHER_KEY, "virsh reads another value")
    for word in ("canary-", KEY, OTHER_KEY):
        # The pattern does not find the command that searches for it.
        log = cloud.on(HOST, f"journalctl --no-pager --since -10min | grep -c '[{word[0]}]{word[1:]}' || true")
        must(log.split()[-1] == "0", "the host's log has a value")


def _private(cloud: Cloud) -> None:
    private = {**SECRET, "private": True, "value_base64": OTHER_KEY, "update_value": "on_create"}
    result = _changed(cloud, "virt_secret", private, True)["secrets"][0]
    text = cloud.on(HOST, f"virsh secret-get-value {result['uuid']} 2>&1 || true")
    must("secret is private" in text, text)
    answer, again = _module(cloud, "virt_secret", {**private, "update_value": "always"})
    must(answer.status == 0 and again["changed"] is True, answer.text)


def _named(cloud: Cloud) -> None:
    secret = {"name": "san", "usage": "iscsi", "value": "canary-password"}
    _changed(cloud, "virt_secret", secret, True)
    # Debian 12 has the driver for iSCSI with the others, that for Ceph in a package of its own.
    pool = {
        **{"name": "san", "type": "iscsi", "host": "192.0.2.1", "target": "iqn.2026-01.org.example:scenario"},
        **{"user": "scenario", "secret": "san", "state": "inactive", "autostart": False},
    }
    answer, result = _module(cloud, "virt_pool", {**pool, "secret": "other"})
    must(answer.status != 0 and "libvirt has no secret for iscsi of that name" in result["msg"], answer.text)
    _changed(cloud, "virt_pool", pool, True)
    gone = {"name": "san", "usage": "iscsi", "state": "absent"}
    _refused(cloud, "virt_secret", gone, "is kept: it is used by storage pool san")
    _changed(cloud, "virt_pool", {"name": "san", "state": "absent"}, True)
    _changed(cloud, "virt_secret", gone, True)


def _clear(cloud: Cloud) -> None:
    cloud.on(
        HOST,
        "virsh undefine pools1; for pool in more san; do virsh pool-destroy $pool; virsh pool-undefine $pool; done;"
        f" for secret in $(virsh secret-list | awk '/{SECRET['name']}| san$/ {{print $1}}'); do"
        f" virsh secret-undefine $secret; done; rm -rf {PLACE}; true",
    )
