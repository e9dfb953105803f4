# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""A Ceph cluster at the lab's bridge: one monitor, one manager, one OSD on a sparse file, and a pool for machines.

It is Debian's own Ceph, with no copies of anything: for tests, whose data nobody needs.
https://docs.ceph.com/en/pacific/install/manual-deployment/
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from brine_lab.base import processes
from brine_lab.base.commands import environment, run, start, tail
from brine_lab.base.lab import Lab
from brine_lab.base.say import LabError, say
from brine_lab.base.state import State, write

# package -> the program that shows it is there
PACKAGES = {"ceph-mon": "ceph-mon", "ceph-mgr": "ceph-mgr", "ceph-osd": "ceph-osd", "ceph-common": "rbd"}
# What hypervisors are given: a pool of the cluster, and a user who may do what libvirt and QEMU do there.
POOL, USER = "vms", "libvirt"
DISK_GIB = 12
_PLACEMENT_GROUPS = 8
_READY_SECONDS = 90
_ROLES = ("mon", "mgr", "osd")


def up(lab: Lab, state: State) -> None:
    """Make the cluster, or start what does not run of it, and wait until its pool can be written to."""
    if running(lab):
        return
    say(f"ceph: starting on {state.gateway}")
    if not _made(lab).exists():
        # What a run that was killed has left is half of a cluster.
        _end(lab)
        shutil.rmtree(_folder(lab), ignore_errors=True)
        _make_monitor(lab, state)
    _start(lab, "mon", "a")
    _wait(lab, ["ceph", "mon", "stat"], "its monitor")
    if not _made(lab).exists():
        _make_others(lab)
    _start(lab, "mgr", "a")
    _start(lab, "osd", "0")
    if not _made(lab).exists():
        _make_pool(lab)
        write(_made(lab), "")
    _wait(lab, ["rbd", "--pool", POOL, "ls"], "its OSD")


def running(lab: Lab) -> bool:
    """Whether all parts of the cluster run."""
    return all(processes.find(lab, _role(kind)) for kind in _ROLES)


def connection(lab: Lab, state: State) -> str:
    """What a hypervisor needs to use the pool, as JSON."""
    key = run(_client(lab, ["ceph", "auth", "get-key", f"client.{USER}"]), mark=lab.mark("ceph")).stdout.strip()
    return json.dumps({"host": state.gateway, "pool": POOL, "user": USER, "key": key})


def become(lab: Lab, words: Sequence[str]) -> NoReturn:
    """Become a program of Ceph's (ceph, rbd, rados) that talks to this cluster as its administrator."""
    os.execvpe(words[0], _client(lab, words), environment(lab.mark("ceph")))  # noqa: S606  (no shell is wanted)


def _client(lab: Lab, words: Sequence[str]) -> list[str]:
    return [words[0], "--conf", str(_conf(lab)), *words[1:]]


def _folder(lab: Lab) -> Path:
    return lab.trees / "ceph"


def _conf(lab: Lab) -> Path:
    return _folder(lab) / "ceph.conf"


def _made(lab: Lab) -> Path:
    """A file that is there once the cluster is whole."""
    return _folder(lab) / "made"


def _role(kind: str) -> str:
    return f"ceph-{kind}"


def _end(lab: Lab) -> None:
    for kind in reversed(_ROLES):
        processes.end(lab, _role(kind))


def _ceph(lab: Lab, *words: str) -> str:
    return run(_client(lab, ["ceph", "--connect-timeout", "30", *words]), mark=lab.mark("ceph")).stdout.strip()


def _start(lab: Lab, kind: str, name: str) -> None:
    if processes.find(lab, _role(kind)):
        return
    log = lab.logs / f"{_role(kind)}.log"
    child = start(
        [f"ceph-{kind}", "--foreground", "--id", name, "--conf", str(_conf(lab))], mark=lab.mark(_role(kind)), log=log
    )
    time.sleep(0.5)
    if child.poll() is not None:
        raise LabError(f"ceph-{kind} ended with {child.returncode}. The end of {log}:\n{tail(log)}")


def _wait(lab: Lab, words: Sequence[str], what: str) -> None:
    """Wait until a command succeeds. Clients of Ceph wait themselves, some of them for ever."""
    end = time.monotonic() + _READY_SECONDS
    while time.monotonic() < end:
        try:
            done = subprocess.run(
                _client(lab, words), env=environment(lab.mark("ceph")), capture_output=True, check=False, timeout=20
            )
        except subprocess.TimeoutExpired:
            continue
        if done.returncode == 0:
            return
        time.sleep(0.3)
    raise LabError(f"The lab's Ceph does not come up, {what} does not answer; its logs are in {lab.logs}.")


def _make_monitor(lab: Lab, state: State) -> None:
    folder, cluster = _folder(lab), str(uuid.uuid4())
    for place in ("mon", "mgr", "osd", "run"):
        (folder / place).mkdir(parents=True)
    address = f"[v2:{state.gateway}:3300,v1:{state.gateway}:6789]"
    write(_conf(lab), _configuration(folder, cluster, state, address))
    admin, monitor, plan = folder / "admin.keyring", folder / "mon.keyring", folder / "monmap"
    mark = lab.mark("ceph")
    everything = [word for cap in ("mon", "osd", "mgr") for word in ("--cap", cap, "allow *")]
    for keyring, name in ((admin, "client.admin"), (monitor, "mon.")):
        run(["ceph-authtool", "--create-keyring", str(keyring), "--gen-key", "--name", name, *everything], mark=mark)
    run(["ceph-authtool", str(monitor), "--import-keyring", str(admin)], mark=mark)
    run(["monmaptool", "--create", "--addv", "a", address, "--fsid", cluster, str(plan)], mark=mark)
    run(
        [
            "ceph-mon",
            "--mkfs",
            "--id",
            "a",
            "--conf",
            str(_conf(lab)),
            "--monmap",
            str(plan),
            "--keyring",
            str(monitor),
        ],
        mark=mark,
    )


def _make_others(lab: Lab) -> None:
    """The manager's and the OSD's keys, and the OSD's store."""
    folder = _folder(lab)
    caps = ("mon", "allow profile mgr", "osd", "allow *", "mds", "allow *")
    _ceph(lab, "auth", "get-or-create", "mgr.a", *caps, "-o", str(folder / "mgr" / "keyring"))
    identity = str(uuid.uuid4())
    _ceph(lab, "osd", "create", identity, "0")
    caps = ("mon", "allow profile osd", "mgr", "allow profile osd", "osd", "allow *")
    # Even to make its store, the OSD asks the monitor first.
    _ceph(lab, "auth", "get-or-create", "osd.0", *caps, "-o", str(folder / "osd" / "keyring"))
    run(["ceph-osd", "--mkfs", "--id", "0", "--osd-uuid", identity, "--conf", str(_conf(lab))], mark=lab.mark("ceph"))


def _make_pool(lab: Lab) -> None:
    _ceph(lab, "osd", "pool", "create", POOL, str(_PLACEMENT_GROUPS))
    _wait(lab, ["rbd", "pool", "init", POOL], "its OSD")
    caps = ("mon", "profile rbd", "osd", f"profile rbd pool={POOL}", "mgr", f"profile rbd pool={POOL}")
    _ceph(lab, "auth", "get-or-create", f"client.{USER}", *caps)


def _configuration(folder: Path, cluster: str, state: State, address: str) -> str:
    """Everything in one folder, nothing in /etc, /var/lib and /run; keys are needed."""
    return f"""\
[global]
fsid = {cluster}
mon_host = {address}
public_network = {state.subnet}
run_dir = {folder}/run
admin_socket = {folder}/run/$name.asok
pid_file =
log_to_stderr = true
err_to_stderr = true
log_file =
mon_cluster_log_file =
mon_cluster_log_to_stderr = false
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
auth_allow_insecure_global_id_reclaim = false
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_warn = 1
mon_data_avail_crit = 1
[client.admin]
keyring = {folder}/admin.keyring
[mon]
mon_data = {folder}/mon
[mgr]
mgr_data = {folder}/mgr
keyring = {folder}/mgr/keyring
mgr_initial_modules =
[osd]
osd_data = {folder}/osd
keyring = {folder}/osd/keyring
osd_objectstore = bluestore
bluestore_block_size = {DISK_GIB << 30}
osd_memory_target = {896 << 20}
osd_max_object_name_len = 256
osd_class_update_on_start = true
"""
