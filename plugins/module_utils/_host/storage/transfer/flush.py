# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that were sent to a hypervisor, written from its memory to its disk.

The end of a stream of libvirt says that the content is in the page cache, from where the kernel writes it within half a
minute. What loses its power before that loses it.

libvirt has no call for that. But QEMU has, as it writes a file to the disk when it has changed it, with all that other
programs have written to that file. So a domain gets the files: no machine of anybody, and it never runs.
"""

from __future__ import annotations

import contextlib
import typing as t
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...._base.errors import HostError, VirtError
from ...._base.xml import etree, read_description
from ...._model.metadata.migration import flush_name, is_flush_name
from ...._model.xml.disk_source import FILE
from ...connection import VirConnect, by_name, libvirt, suppress_codes, translate_errors
from ...facts.guest_capabilities import GuestCapabilities
from ..pools import Pool
from ..shared_pools import seen_elsewhere
from ..usage import delete_those_unused
from ..volumes import make_volume, new_volume_element

# Fewer than a PCI bus has places.
_FILES_AT_ONCE = 16
# Enough for a QEMU that runs nothing; libvirt rounds up where an architecture wants more.
_MEMORY_MIB = 16


@dataclass(frozen=True)
class SentFile:
    """A volume and the number of bytes that were sent to it, which is all that it has."""

    pool: Pool
    name: str
    size_bytes: int

    @property
    def path(self) -> str:
        """Where it is on its hypervisor."""
        return self.pool.volume_path(self.name)


@contextlib.contextmanager
def flushed(conn: VirConnect, files: Sequence[SentFile]) -> Iterator[None]:
    """At the end of the block, all that volumes of a hypervisor have is on its disk; nobody else opens them meanwhile.

    Only files are written: what is sent to a device, the kernel has written to it when it is closed. A cache that the
    device itself has, and loses with its power, is not emptied. Raises HostError when the hypervisor does not confirm
    it.
    """
    pending = [file for file in files if file.pool.source_type == FILE]
    with contextlib.ExitStack() as stack:
        for first in range(0, len(pending), _FILES_AT_ONCE):
            stack.enter_context(_flushed(conn, pending[first : first + _FILES_AT_ONCE]))
        yield


@contextlib.contextmanager
def _flushed(conn: VirConnect, files: Sequence[SentFile]) -> Iterator[None]:
    what = f"nothing confirms that these files are on the target's disk: {', '.join(file.name for file in files)}"
    paths = [file.path for file in files]
    name = flush_name(uuid.uuid4().hex)
    end_flushes(conn, paths)
    xml = flush_domain_xml(name, GuestCapabilities(conn).domain_type, paths)
    # It is paused from the first moment on, and goes with this connection, however this process ends.
    flags = libvirt.VIR_DOMAIN_START_PAUSED | libvirt.VIR_DOMAIN_START_AUTODESTROY
    with translate_errors(what):
        handle = conn.createXML(xml, flags)
    try:
        yield
        with translate_errors(what):
            for index, file in enumerate(files):
                _resize_to_itself(handle, flush_target(index), file)
            _end(conn, handle, name, files[0].pool)
    except BaseException:
        with contextlib.suppress(libvirt.libvirtError):
            handle.destroy()
        raise


def _resize_to_itself(handle: t.Any, target: str, file: SentFile) -> None:
    """A change of nothing, by which QEMU knows that there is something to be written."""
    size_bytes = handle.blockInfo(target)[2]
    if size_bytes != file.size_bytes:
        raise HostError(f"volume {file.name} has {size_bytes} bytes, but {file.size_bytes} were sent to it")
    handle.blockResize(target, size_bytes, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)


def _end(conn: VirConnect, handle: t.Any, name: str, pool: Pool) -> None:
    """Save the domain, to a volume that goes at once: QEMU flushes first then, and libvirt reports it if that fails.

    A QEMU that is told to end flushes as well, but nobody hears of a failure.
    """
    _delete_left_states(conn, pool)
    volume = make_volume(pool, name, new_volume_element(pool, name, 1, "raw"))
    try:
        handle.save(volume.path())
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID:
            raise
        # Old versions of libvirt save no domain that goes with its connection. One that has crashed cannot be ended.
        handle.destroyFlags(libvirt.VIR_DOMAIN_DESTROY_GRACEFUL)
    finally:
        with contextlib.suppress(libvirt.libvirtError):
            volume.delete(0)


def _delete_left_states(conn: VirConnect, pool: Pool) -> None:
    """Delete what runs that were cut off have saved to a pool; where other hypervisors may do the same, it stays."""
    if seen_elsewhere(pool):
        return
    left = sorted(filter(is_flush_name, by_name(pool.handle.listAllVolumes(0))))
    # Other moves may be at it just now. Asked after the volumes: each domain was there before its state.
    alive = {domain.name() for domain in conn.listAllDomains(0)} if left else set()
    # What something uses all the same, and what cannot be deleted, is for nobody to hear of here.
    with contextlib.suppress(VirtError):
        going = [(pool, name) for name in left if name not in alive]
        delete_those_unused(pool.handle.connect(), going, fresh=True)


def end_flushes(conn: VirConnect, paths: Sequence[str]) -> None:
    """End the domains that a run which was cut off has left with one of these files, where its libvirt ended as well.

    Raises what libvirt raises, as ours.
    """
    for handle in _flushing(conn, paths):
        with contextlib.suppress(libvirt.libvirtError):
            handle.destroy()


def is_being_flushed(conn: VirConnect, path: str) -> bool:
    """Whether somebody has this file written to the disk at this moment. Raises what libvirt raises, as ours."""
    return bool(_flushing(conn, [path]))


def _flushing(conn: VirConnect, paths: Sequence[str]) -> list[t.Any]:
    found = []
    with translate_errors("cannot list the machines"):
        for handle in conn.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_TRANSIENT):
            if not is_flush_name(handle.name()):
                continue
            with suppress_codes(libvirt.VIR_ERR_NO_DOMAIN):
                domain = read_description(f"machine {handle.name()}", handle.XMLDesc(0))
                sources = domain.iterfind("devices/disk/source")
                if {source.get("file", "") for source in sources} & set(paths):
                    found.append(handle)
    return found


def flush_target(index: int) -> str:
    """The device name of a file, by its place in the list."""
    return f"vd{chr(ord('a') + index)}"


def flush_domain_xml(name: str, domain_type: str, paths: Sequence[str]) -> str:
    """The domain with these files, at most 26; raw, whatever they are: nothing that a guest wrote is read."""
    root = etree.Element("domain", type=domain_type)
    etree.SubElement(root, "name").text = name
    etree.SubElement(root, "title").text = "brine.virt flushes the files of a move to disk; this disappears in a moment"
    etree.SubElement(root, "memory", unit="MiB").text = str(_MEMORY_MIB)
    etree.SubElement(root, "vcpu").text = "1"
    etree.SubElement(etree.SubElement(root, "os"), "type").text = "hvm"
    devices = etree.SubElement(root, "devices")
    for index, path in enumerate(paths):
        disk = etree.SubElement(devices, "disk", type="file", device="disk")
        etree.SubElement(disk, "driver", name="qemu", type="raw", cache="writeback")
        etree.SubElement(disk, "source", file=path)
        etree.SubElement(disk, "target", dev=flush_target(index), bus="virtio")
    etree.SubElement(devices, "controller", type="usb", model="none")
    etree.SubElement(devices, "memballoon", model="none")
    return etree.tostring(root, encoding="unicode")
