# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a definition may have that nobody answers for: elements and attributes of libvirt's domain XML that reach
nothing of the hypervisor but what every machine has there: its own disks, networks, its console, its log.

Each line has the path of elements below ``<domain>``, where ``|`` stands between names of which each may be there, and
the attributes that they may have. ``NAME=A|B`` has to be there with one of the values; ``NAME?=A|B`` may be missing;
``.`` is the text of the element. ``:RULE`` stands for values of a kind, see harmless.py. Where libvirt chooses what is
missing, and not all that it may choose is harmless, the attribute has to be there.

Whatever has no line is refused. Add one only if you know what libvirt and QEMU open, run or connect to because of it.

https://libvirt.org/formatdomain.html
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

_CHARACTER = "devices/serial|console|parallel"
# Of a guest's PCI device.
_VIRTIO = "iommu ats packed page_per_vq"

_MACHINE = """
name
uuid
genid
title
description
memory: unit dumpCore
currentMemory: unit
maxMemory: unit slots
memtune
memtune/hard_limit|soft_limit|swap_hard_limit|min_guarantee: unit
memoryBacking
memoryBacking/nosharepages|locked|discard|hugepages
memoryBacking/hugepages/page: size unit nodeset
memoryBacking/source: type
memoryBacking/access: mode
memoryBacking/allocation: mode threads
blkiotune
blkiotune/weight
vcpu: placement cpuset current
vcpus
vcpus/vcpu: id enabled hotpluggable order
iothreads
iothreadids
iothreadids/iothread: id thread_pool_min thread_pool_max
iothreadids/iothread/poll: max grow shrink
defaultiothread: thread_pool_min thread_pool_max
cputune
cputune/shares|period|quota|global_period|global_quota|emulator_period|emulator_quota|iothread_period|iothread_quota
cputune/vcpupin: vcpu cpuset
cputune/emulatorpin: cpuset
cputune/iothreadpin: iothread cpuset
cputune/vcpusched|iothreadsched|emulatorsched: vcpus iothreads scheduler priority
numatune
numatune/memory: mode nodeset placement
numatune/memnode: cellid mode nodeset
resource
resource/partition: .=/machine
sysinfo: type=smbios
sysinfo/bios|system|baseBoard|chassis|oemStrings
sysinfo/bios|system|baseBoard|chassis|oemStrings/entry: name
os: firmware
os/type: arch machine
os/firmware
os/firmware/feature: enabled name
os/loader: readonly secure type stateless format .?=:shipped
os/nvram: template?=:shipped templateFormat format
os/kernel|initrd: .?=:shipped
os/cmdline
os/boot: dev
os/bootmenu: enable timeout
os/bios: useserial rebootTimeout
os/smbios: mode=emulate|sysinfo
cpu: mode match check migratable deprecated_features
cpu/model: fallback vendor_id
cpu/vendor
cpu/topology: sockets dies clusters cores threads
cpu/feature: policy name
cpu/cache: level mode
cpu/maxphysaddr: mode bits limit
cpu/numa
cpu/numa/cell: id cpus memory unit memAccess discard
cpu/numa/cell/distances
cpu/numa/cell/distances/sibling: id value
cpu/numa/cell/cache: level associativity policy
cpu/numa/cell/cache/size|line: value unit
cpu/numa/interconnects
cpu/numa/interconnects/latency|bandwidth: initiator target cache type value unit
features
features/acpi|pae|privnet|viridian
features/apic: eoi
features/hap|pmu|vmport|vmcoreinfo|smm|pvspinlock|htm|nested-hv|ccf-assist|ras|ps2: state
features/smm/tseg: unit
features/gic: version
features/ioapic: driver
features/kvm|hyperv: mode
features/kvm/hidden|hint-dedicated|poll-control|pv-ipi: state
features/kvm/dirty-ring: state size
features/hyperv/relaxed|vapic|vpindex|runtime|synic|reset|frequencies|reenlightenment|ipi|evmcs|avic: state
features/hyperv/emsr_bitmap|xmm_input|stimer|tlbflush: state
features/hyperv/stimer|tlbflush/direct|extended: state
features/hyperv/spinlocks: state retries
features/hyperv/vendor_id: state value
clock: offset timezone?=:zone adjustment basis start
clock/timer: name present tickpolicy track frequency mode
clock/timer/catchup: threshold slew limit
pm
pm/suspend-to-mem|suspend-to-disk: enabled
on_poweroff|on_reboot|on_crash|on_lockfailure
"""

# Where a disk is has been written here, and is not looked at.
_DISKS = f"""
devices/disk: type device model snapshot rawio?=no
devices/disk/driver: name?=qemu type cache io error_policy rerror_policy ioeventfd event_idx copy_on_read discard
devices/disk/driver: discard_no_unmap detect_zeroes iothread queues queue_size {_VIRTIO}
devices/disk/driver/iothreads
devices/disk/driver/iothreads/iothread: id
devices/disk/driver/iothreads/iothread/queue: id
devices/disk/driver/metadata_cache
devices/disk/driver/metadata_cache/max_size: unit
devices/disk/target: dev bus tray removable rotation_rate
devices/disk/readonly|shareable|serial|wwn|vendor|product
devices/disk/blockio: logical_block_size physical_block_size discard_granularity
devices/disk/geometry: cyls heads secs trans
devices/disk/iotune
devices/disk/iotune/total_bytes_sec|read_bytes_sec|write_bytes_sec|total_iops_sec|read_iops_sec|write_iops_sec
devices/disk/iotune/total_bytes_sec_max|read_bytes_sec_max|write_bytes_sec_max|total_iops_sec_max|read_iops_sec_max
devices/disk/iotune/write_iops_sec_max|size_iops_sec|group_name|total_bytes_sec_max_length|read_bytes_sec_max_length
devices/disk/iotune/write_bytes_sec_max_length|total_iops_sec_max_length|read_iops_sec_max_length
devices/disk/iotune/write_iops_sec_max_length
"""

# Which bridge or network it is, the definition says. Not of type ethernet, which is what libvirt takes without a type,
# nor of type user, whose guest reaches what listens on the hypervisor's loopback address. A device in mode passthrough
# is the machine's alone. A target that libvirt has not named itself may be the tap device of another program.
_NICS = f"""
devices/interface: type=bridge|network|direct|null trustGuestRxFilters
devices/interface/mac: address type check
devices/interface/source: bridge network portgroup dev mode?=bridge|vepa|private
devices/interface/model: type
devices/interface/target: dev?=:tap
devices/interface/virtualport: type
devices/interface/virtualport/parameters: interfaceid profileid managerid typeid typeidversion instanceid
devices/interface/vlan: trunk
devices/interface/vlan/tag: id nativeMode
devices/interface/mtu: size
devices/interface/link: state
devices/interface/port: isolated
devices/interface/filterref: filter
devices/interface/filterref/parameter: name value
devices/interface/bandwidth
devices/interface/bandwidth/inbound|outbound: average peak burst floor
devices/interface/coalesce
devices/interface/coalesce/rx
devices/interface/coalesce/rx/frames: max
devices/interface/tune
devices/interface/tune/sndbuf
devices/interface/driver: name queues txmode ioeventfd event_idx rx_queue_size tx_queue_size rss rss_hash_report
devices/interface/driver: {_VIRTIO}
devices/interface/driver/host|guest: csum gso tso4 tso6 ecn ufo mrg_rxbuf
"""

# Character devices that connect to something do it from the hypervisor, where libvirt itself may listen.
_OTHERS = f"""
devices/controller: type index model ports vectors maxGrantFrames maxEventChannels
devices/controller/model: name
devices/controller/master: startport
devices/controller/pcihole64: unit
devices/controller/target: chassisNr chassis port busNr index hotplug memReserve
devices/controller/target/node
devices/controller/driver: queues cmd_per_lun max_sectors ioeventfd iothread {_VIRTIO}
{_CHARACTER}: type=pty|tcp|file|null
{_CHARACTER}/source: mode?=bind host service tls append path?=:log
{_CHARACTER}/protocol: type
{_CHARACTER}/log: file=:log append
{_CHARACTER}/target: type port
{_CHARACTER}/target/model: name
devices/channel: type=unix|pty|null|spicevmc|qemu-vdagent
devices/channel/source: mode?=bind
devices/channel/source/clipboard: copypaste
devices/channel/source/mouse: mode
devices/channel/log: file=:log append
devices/channel/target: type=virtio name state
devices/input: type=mouse|tablet|keyboard bus model
devices/input/driver: {_VIRTIO}
devices/tpm: model
devices/tpm/backend: type=emulator version persistent_state
devices/tpm/backend/active_pcr_banks
devices/tpm/backend/active_pcr_banks/sha1|sha256|sha384|sha512
devices/graphics: type=vnc|spice port autoport tlsPort websocket listen passwd passwdValidTo connected
devices/graphics: defaultMode keymap?=:word sharePolicy powerControl
devices/graphics/listen: type=address|network|none address network
devices/graphics/channel: name mode
devices/graphics/image|jpeg|zlib|playback: compression
devices/graphics/streaming|mouse: mode
devices/graphics/clipboard: copypaste
devices/graphics/filetransfer: enable
devices/graphics/gl: enable=no
devices/graphics/audio: id
devices/video
devices/video/model: type vram vram64 ram vgamem heads primary blob
devices/video/model/acceleration: accel2d accel3d?=no
devices/video/model/resolution: x y
devices/video/driver: name?=qemu vgaconf {_VIRTIO}
devices/audio: id type=none|spice
devices/sound: model multichannel streams
devices/sound/codec: type
devices/sound/audio: id
devices/sound/driver: {_VIRTIO}
devices/hub: type
devices/redirdev: bus type=spicevmc
devices/redirfilter
devices/redirfilter/usbdev: class vendor product version allow
devices/smartcard: mode=passthrough type=spicevmc
devices/watchdog: model action
devices/rng: model
devices/rng/backend: model=random|builtin .?=:entropy
devices/rng/rate: bytes period
devices/rng/driver: {_VIRTIO}
devices/memballoon: model autodeflate freePageReporting
devices/memballoon/stats: period
devices/memballoon/driver: {_VIRTIO}
devices/panic: model
devices/memory: model=dimm|virtio-mem discard access
devices/memory/source
devices/memory/source/pagesize: unit
devices/memory/source/nodemask
devices/memory/target: dynamicMemslots
devices/memory/target/size|requested|block: unit
devices/memory/target/node
devices/iommu: model
devices/iommu/driver: intremap caching_mode eim iotlb aw_bits dma_translation
"""

# What a device of any kind may have: its place in the guest.
_OF_ANY_DEVICE = """
address: type domain bus slot function multifunction controller target unit port reg iobase irq cssid ssid devno base
address/zpci: uid fid
alias: name
boot: order loadparm
acpi: index
rom: bar enabled
"""


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.strip().splitlines():
        paths, _colon, attributes = line.partition(": ")
        for names in itertools.product(*(part.split("|") for part in paths.split("/"))):
            yield "/".join(names), attributes


def _table() -> dict[str, dict[str, tuple[bool, tuple[str, ...]]]]:
    table: dict[str, dict[str, tuple[bool, tuple[str, ...]]]] = {"": {"type": (False, ()), "id": (False, ())}}
    table["devices"] = {}
    for text in (_MACHINE, _DISKS, _NICS, _OTHERS):
        for path, attributes in _lines(text):
            row = table.setdefault(path, {})
            for word in attributes.split():
                name, limited, values = word.partition("=")
                needed = bool(limited) and not name.endswith("?")
                row[name.rstrip("?")] = (needed, tuple(values.split("|")) if limited else ())
    for device in [path for path in table if path.count("/") == 1 and path.startswith("devices/")]:
        for path, attributes in _lines(_OF_ANY_DEVICE):
            table[f"{device}/{path}"] = {name: (False, ()) for name in attributes.split()}
    return table


# By path below <domain>, the attributes by name, and "." for the text: whether it has to be there, and what it may be;
# nothing for anything.
HARMLESS = _table()
