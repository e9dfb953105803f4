# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a machine is to be moved: what the user laid down, and libvirt's flags and parameters for it."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from ...._base.errors import InputError
from ...._host.connection import libvirt

AUTO, ALL, NONE = "auto", "all", "none"

# Our options that libvirt has a parameter for, with the end of its constant's name.
# https://libvirt.org/html/libvirt-libvirt-domain.html#VIR_MIGRATE_PARAM_BANDWIDTH
_PARAMETERS = {
    "bandwidth": "BANDWIDTH",
    "postcopy_bandwidth": "BANDWIDTH_POSTCOPY",
    "parallel_connections": "PARALLEL_CONNECTIONS",
    "compression.methods": "COMPRESSION",
    "compression.mt_level": "COMPRESSION_MT_LEVEL",
    "compression.mt_threads": "COMPRESSION_MT_THREADS",
    "compression.mt_dthreads": "COMPRESSION_MT_DTHREADS",
    "compression.xbzrle_cache": "COMPRESSION_XBZRLE_CACHE",
}
# Salt's words for the keys of compression.
_SALT_COMPRESSION = {
    "comp_methods": "methods",
    "comp_mt_level": "mt_level",
    "comp_mt_threads": "mt_threads",
    "comp_mt_dthreads": "mt_dthreads",
    "comp_xbzrle_cache": "xbzrle_cache",
}


@dataclass(frozen=True)
class MigrationOptions:
    """The options of virt_migrate that are the same for all machines of a task; its documentation describes them.

    disks: by the name of a disk, or its device in the guest, the pool that it goes to; pool: that of all others.
    """

    live: bool = True
    copy_storage: str = AUTO
    tls: bool = True
    persistent: bool = True
    undefine_source: bool = True
    source_volumes: str = "own"
    timeout_seconds: float | None = None
    max_downtime_ms: int | None = None
    auto_converge: bool = True
    postcopy: bool = False
    compressed: bool = False
    migration_address: str | None = None
    memory_ratio: float = 1.0
    memory_reserve_mib: int = 256
    anti_affinity: str = "require"
    pool: str | None = None
    disks: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, t.Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.persistent and self.undefine_source:
            raise InputError(
                "the machine would be defined nowhere, and lost when it is shut down",
                where="persistent",
                hint="Set undefine_source: false as well, or leave it persistent",
            )
        for where, value in (
            ("timeout", self.timeout_seconds),
            ("max_downtime", self.max_downtime_ms),
            ("memory_ratio", self.memory_ratio),
        ):
            if value is not None and value <= 0:
                raise InputError(f"{value:g} is not above 0", where=where)
        for name in ("bandwidth", "postcopy_bandwidth", "parallel_connections"):
            value = self.parameters.get(name)
            if value is not None and value <= 0:
                raise InputError(f"{value} is not above 0", where=name)
        if self.memory_reserve_mib < 0:
            raise InputError("a reserve cannot be negative", where="memory_reserve_mib")
        if self.names_pools and self.copy_storage == NONE:
            raise InputError(
                "a disk gets into another pool by being copied", where="copy_storage", hint="Leave copy_storage out"
            )

    @property
    def names_pools(self) -> bool:
        """Whether disks are to be in other pools than those that they are in."""
        return self.pool is not None or bool(self.disks)


def read_migration_options(params: dict[str, t.Any]) -> MigrationOptions:
    """The options in a module's parameters. Raises InputError for values that make no sense."""
    compression = _read_compression(params)
    own = {
        **{name: params[name] for name in _PARAMETERS if "." not in name},
        **{f"compression.{key}": value for key, value in compression.items()},
    }
    # Most are what the module calls them.
    same_names = {field.name: params[field.name] for field in fields(MigrationOptions) if field.name in params}
    return MigrationOptions(
        **{
            **same_names,
            "copy_storage": {"inc": AUTO, "incremental": AUTO}.get(params["copy_storage"], params["copy_storage"]),
            "timeout_seconds": params["timeout"],
            "disks": _read_disks(params.get("disks")),
            "max_downtime_ms": params["max_downtime"],
            "compressed": params["compression"] is not None or params["compressed"] or bool(params["comp_methods"]),
            "parameters": {name: value for name, value in own.items() if value is not None},
        }
    )


def _read_disks(disks: dict[str, t.Any] | None) -> dict[str, str]:
    """The pool of each disk that is named. Raises InputError for anything else than ``{data: {pool: fast}}``."""
    pools = {}
    for name, wanted in (disks or {}).items():
        pool = wanted.get("pool") if isinstance(wanted, dict) else None
        if not isinstance(wanted, dict) or set(wanted) != {"pool"} or not isinstance(pool, str) or not pool:
            raise InputError(
                f"{wanted!r} does not name a pool", where=f"disks.{name}", hint=f"Give {{{name}: {{pool: NAME}}}}"
            )
        pools[str(name)] = pool
    return pools


def _read_compression(params: dict[str, t.Any]) -> dict[str, t.Any]:
    """How memory is compressed, if it is: the mapping, or Salt's words for its keys. Raises InputError where both are
    there."""
    named = [word for word in _SALT_COMPRESSION if params[word] is not None]
    named = ["compressed", *named] if params["compressed"] else named
    if params["compression"] is None:
        return {ours: params[word] for word, ours in _SALT_COMPRESSION.items()}
    if named:
        raise InputError(
            f"{' and '.join(named)} and compression are given together",
            hint="Put all of it into compression; the other names are Salt's",
        )
    return dict(params["compression"])


def flags(options: MigrationOptions, *, active: bool, copied: bool, whole: bool) -> int:
    """libvirt's flags.

    active: the machine is up. copied: QEMU copies disks of it; whole: with what backs them.
    """
    wanted = {
        "PEER2PEER": True,
        "PERSIST_DEST": options.persistent,
        "UNDEFINE_SOURCE": options.undefine_source,
        "OFFLINE": not active,
        "LIVE": active and options.live,
        "TLS": active and options.tls,
        "AUTO_CONVERGE": active and options.live and options.auto_converge,
        "POSTCOPY": active and options.postcopy,
        "COMPRESSED": active and options.compressed,
        "PARALLEL": active and "parallel_connections" in options.parameters,
        "NON_SHARED_DISK": active and copied and whole,
        "NON_SHARED_INC": active and copied and not whole,
        # A disk that fails at the source is no reason to end up with half a machine at the target.
        "ABORT_ON_ERROR": active and copied,
        # A guest that writes all the time is slowed down instead of being chased for ever.
        "NON_SHARED_SYNCHRONOUS_WRITES": active and copied,
    }
    # An older libvirt knows no synchronous writes; it is the only one that may be missing.
    return sum(int(getattr(libvirt, f"VIR_MIGRATE_{name}", 0)) for name, is_wanted in wanted.items() if is_wanted)


def parameters(options: MigrationOptions, *, address: str, active: bool, disks: Sequence[str]) -> dict[str, t.Any]:
    """libvirt's parameters. address: the target's, for the machine's own data. disks: target devices QEMU copies."""
    if not active:
        return {}
    host = f"[{address}]" if ":" in address else address
    known: dict[str, t.Any] = {libvirt.VIR_MIGRATE_PARAM_URI: f"tcp://{host}"}
    for name, value in options.parameters.items():
        known[getattr(libvirt, f"VIR_MIGRATE_PARAM_{_PARAMETERS[name]}")] = value
    if disks:
        known[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = list(disks)
    return known
