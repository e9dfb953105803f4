# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pool of a Ceph cluster, past libvirt: for what its storage driver cannot do (rename, snapshots, who uses what).

Ceph's own bindings (https://docs.ceph.com/en/latest/rbd/api/librbdpy/), with the address, the user and the key that the
libvirt pool has. Nothing is read from /etc/ceph, and the key gets into no file and no command line.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import shlex
import typing as t
from dataclasses import dataclass

from ..._base.errors import ConflictError, HostError, UnsupportedError, VirtError
from ..._model.attachments import OWN_SNAPSHOT
from ..._model.xml.disk_source import DiskSource
from ..connection import libvirt, translate_errors
from .pools import Pool

KEY_ID = "key"
_PORT = 6789
# As long as libvirt itself waits (RADOS timeouts in src/storage/storage_backend_rbd.c); Ceph would wait for ever.
_SECONDS = "30"
# The snapshots that users and groups of volumes have; those of a mirror, and of deleted snapshots that have clones, are
# Ceph's own. RBD_SNAP_NAMESPACE_TYPE_USER and _GROUP in its include/rbd/librbd.h
_OF_USERS = (0, 1)
_IN_TRASH = " (in the trash"


class Cluster:
    """An open connection to one pool of a cluster.

    rbd: the module of Ceph's bindings, whose exceptions the methods of its images raise; see ceph_errors. io: the
    pool's context, which its functions take.
    """

    def __init__(self, rbd: t.Any, io: t.Any) -> None:
        self.rbd = rbd
        self.io = io
        self.volumes = rbd.RBD()

    def open(self, name: str, *, read_only: bool = False, snapshot: str | None = None) -> t.Any:
        """An image of the pool, as a context manager. snapshot: as it was then, to be read only."""
        if snapshot is not None:
            return self.rbd.Image(self.io, name, snapshot=snapshot, read_only=True)
        return self.rbd.Image(self.io, name, read_only=read_only)

    def has(self, name: str) -> bool:
        """Whether the pool has an image of this name."""
        try:
            with self.open(name, read_only=True):
                return True
        except self.rbd.ImageNotFound:
            return False


def require_bindings(pool: Pool, where: str | None = None, otherwise: str | None = None) -> None:
    """Raise UnsupportedError where Python has none of Ceph's bindings. otherwise: in words, what can be done then."""
    missing = _missing_bindings()
    if missing is not None:
        raise UnsupportedError(
            f"storage pool {pool.name!r} is of type rbd, and Python cannot import Ceph's bindings here ({missing})",
            where=where,
            hint="Install python3-rados and python3-rbd on the hypervisor" + (f", or {otherwise}" if otherwise else ""),
        )


def has_bindings() -> bool:
    """Whether Python has Ceph's bindings. Without them, a pool of a cluster is used as far as libvirt itself can."""
    return _missing_bindings() is None


@contextlib.contextmanager
def open_cluster(pool: Pool) -> t.Iterator[Cluster]:
    """The pool of the cluster that a libvirt pool of type rbd is, for the block.

    Raises UnsupportedError without Ceph's bindings, HostError when the cluster does not answer, and for what goes wrong
    in the block.
    """
    require_bindings(pool)
    rados, rbd = _bindings("rados"), _bindings("rbd")
    source = pool.network or DiskSource("network")
    settings = {
        "mon_host": ",".join(_monitor(host, port) for host, port in source.hosts),
        "client_mount_timeout": _SECONDS,
        "rados_mon_op_timeout": _SECONDS,
        "rados_osd_op_timeout": _SECONDS,
    }
    if source.auth_user is None:
        settings.update({"auth_client_required": "none"})
    else:
        settings.update({"key": cluster_key(pool, source).decode()})
    with ceph_errors(rados, rbd, f"cannot reach the Ceph cluster of storage pool {pool.name}"):
        connection = rados.Rados(rados_id=source.auth_user or "admin", conf=settings)
        connection.connect()
    try:
        with ceph_errors(rados, rbd, f"the Ceph cluster of storage pool {pool.name}"):
            io = connection.open_ioctx((source.name or "").rstrip("/"))
            try:
                yield Cluster(rbd, io)
            finally:
                io.close()
    finally:
        connection.shutdown()


def require_no_snapshots_in_use(pool: Pool, volume: str) -> None:
    """Raise ConflictError when a volume has snapshots with which its cluster would not delete it: as
    remove_own_snapshots does."""
    with open_cluster(pool) as cluster:
        _own_snapshots(cluster, pool, volume)


def remove_own_snapshots(pool: Pool, volume: str) -> None:
    """Delete all snapshots that this collection has taken of a volume which is about to be deleted.

    None where the volume would stay anyway, as it is open. Raises ConflictError when one has clones, or is somebody
    else's; nothing is deleted then.
    """
    with open_cluster(pool) as cluster:
        for name in _own_snapshots(cluster, pool, volume):
            remove_snapshot(cluster, pool, volume, name)


def _own_snapshots(cluster: Cluster, pool: Pool, volume: str) -> set[str]:
    """The snapshots of a volume that go with it; none where it is open, or not there. Raises ConflictError."""
    try:
        with cluster.open(volume, read_only=True) as image:
            names, is_open = snapshot_names(image), bool(list(image.watchers_list()))
            others, clones = snapshots_of_others(image), clones_of(image)
    except cluster.rbd.ImageNotFound:
        return set()
    if others:
        raise ConflictError(
            f"volume {volume} of pool {pool.name} has snapshots that this collection has not taken: "
            f"{', '.join(others)}",
            hint=f"If nobody needs them: rbd snap rm {shlex.quote(f'{pool.source_of(volume).name}@{others[0]}')}",
        )
    if clones:
        # Of a snapshot that is deleted already, too: Ceph keeps it for them, under another name.
        words = f"volume {volume} of pool {pool.name} has clones: {', '.join(clones)}"
        raise ConflictError(words, hint=_flatten(clones))
    return set() if is_open else names


def snapshot_names(image: t.Any) -> set[str]:
    """The names of all snapshots of an opened image, but for those that Ceph itself makes and deletes."""
    return {snapshot["name"] for snapshot in image.list_snaps() if snapshot.get("namespace", 0) in _OF_USERS}


def snapshots_of_others(image: t.Any) -> list[str]:
    """The names of those that this collection has not taken of a volume, with which the cluster does not delete it."""
    return sorted(name for name in snapshot_names(image) if not name.startswith(OWN_SNAPSHOT))


def require_no_clones_of(cluster: Cluster, pool: Pool, volume: str, snapshot: str) -> None:
    """Raise ConflictError, with their names, when a snapshot has clones; one that is not there has none."""
    try:
        with cluster.open(volume, read_only=True, snapshot=snapshot) as image:
            clones = clones_of(image)
    except cluster.rbd.ImageNotFound:
        return
    if clones:
        raise ConflictError(
            f"volume {volume} of pool {pool.name} has clones that are made from snapshot {snapshot}: "
            f"{', '.join(clones)}",
            hint=_flatten(clones),
        )


def clones_of(image: t.Any) -> list[str]:
    """The volumes that are clones of an opened image, or of the snapshot that it is opened as, as rbd takes them."""
    return sorted(map(_clone_words, image.list_children2()))


def _clone_words(child: t.Mapping[str, t.Any]) -> str:
    pool = "/".join(filter(None, [child["pool"], child.get("pool_namespace")]))
    name = f"{pool}/{child['image']}"
    # No command but those for the trash finds it by its name.
    return f"{name}{_IN_TRASH}: rbd trash rm {pool}/{child['id']})" if child.get("trash") else name


def _flatten(clones: list[str]) -> str:
    first = next((name for name in clones if _IN_TRASH not in name), None)
    if first is None:
        return "Delete it there"
    return f"Make them independent, or delete them: rbd flatten {shlex.quote(first)}"


def remove_snapshot(cluster: Cluster, pool: Pool, volume: str, snapshot: str) -> None:
    """Delete a snapshot, which may be protected; one that is not there is passed over. ConflictError for one in use."""
    with contextlib.suppress(cluster.rbd.ImageNotFound), cluster.open(volume) as image:
        if snapshot not in snapshot_names(image):
            return
        try:
            if image.is_protected_snap(snapshot):
                # Whoever has protected it has no clone of it any more.
                image.unprotect_snap(snapshot)
            image.remove_snap(snapshot)
        except cluster.rbd.ImageBusy as exc:
            raise ConflictError(
                f"snapshot {snapshot} of volume {volume} of pool {pool.name} is in use in its Ceph cluster: {exc}",
                hint="It may have been cloned since this run looked. Run it again",
            ) from exc


@contextlib.contextmanager
def ceph_errors(rados: t.Any, rbd: t.Any, what: str) -> t.Iterator[None]:
    """Inside the block, an error of Ceph's bindings is raised as HostError."""
    try:
        yield
    except VirtError:
        raise
    except (rados.Error, rbd.Error) as exc:
        raise HostError(f"{what}: {exc}") from exc


@dataclass(frozen=True)
class QemuName:
    """A volume of a cluster as qemu-img takes it.

    name: in place of a path. options: what has to stand before that. data: what it reads from its standard input for
    this: the cluster's key, which so gets into no file and no command line. words: what it is in a sentence.
    """

    name: str
    options: tuple[str, ...] = ()
    data: bytes = b""
    words: str = "a volume of a cluster"


def qemu_name(pool: Pool, volume: str) -> QemuName:
    """The name of a volume for qemu-img. Raises VirtError when the cluster's key cannot be had."""
    source = pool.source_of(volume)
    name = "json:" + json.dumps({"driver": "raw", "file": rbd_node(source)})
    words = f"volume {volume} of pool {pool.name}"
    if source.auth_user is None:
        return QemuName(name, words=words)
    secret = f"secret,id={KEY_ID},format=base64,file=/dev/stdin"
    return QemuName(name, ("--object", secret), cluster_key(pool, source), words)


def rbd_node(source: DiskSource) -> dict[str, t.Any]:
    """A volume of a Ceph cluster in the words of QEMU's rbd driver.

    BlockdevOptionsRbd in https://www.qemu.org/docs/master/interop/qemu-qmp-ref.html
    """
    pool, _slash, image = (source.name or "").partition("/")
    node: dict[str, t.Any] = {"driver": "rbd", "pool": pool, "image": image}
    if source.auth_user is not None:
        node.update({"user": source.auth_user, "key-secret": KEY_ID, "auth-client-required": ["cephx", "none"]})
    if source.hosts:
        node["server"] = [{"host": host, "port": str(port or _PORT)} for host, port in source.hosts]
    return node


def cluster_key(pool: Pool, source: DiskSource) -> bytes:
    """The cluster's key, which libvirt keeps, in base64."""
    with translate_errors(f"cannot read the key for pool {pool.name}, which libvirt keeps"):
        conn = pool.handle.connect()
        if source.secret_uuid is not None:
            secret = conn.secretLookupByUUIDString(source.secret_uuid)
        else:
            secret = conn.secretLookupByUsage(libvirt.VIR_SECRET_USAGE_TYPE_CEPH, source.secret_usage)
        return base64.b64encode(secret.value(0))


def _missing_bindings() -> ImportError | None:
    """What Python says of them when it has none."""
    try:
        for name in ("rados", "rbd"):
            _bindings(name)
    except ImportError as exc:
        return exc
    return None


def _bindings(name: str) -> t.Any:
    """A module of Ceph's. Imported here alone: a hypervisor without a Ceph pool has none."""
    return importlib.import_module(name)


def _monitor(host: str, port: int | None) -> str:
    """A monitor's address as Ceph's configuration has it; without a port Ceph tries those that it has itself."""
    name = f"[{host}]" if ":" in host else host
    return f"{name}:{port}" if port else name
