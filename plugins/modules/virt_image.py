#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: the images in a hypervisor's store. The action plugin of this name is its controller half."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_image
short_description: Manage the disk images in a hypervisor's image store
version_added: "1.0.0"
description:
  - Brings a disk image from the controller, from the web, from a path on the hypervisor, or from a machine there into
    the image store, which is a storage pool of files. Removes images that nothing uses.
  - A stored image is named after its content, C(NAME-DIGEST.FORMAT) with the first 16 hex digits of its sha256. It is
    read-only and never overwritten, so that it can back machines for as long as they exist. The same name means the
    same bytes on every hypervisor. An image with new content under an old name is stored next to the old one.
  - The image is in the store either completely or not at all. What a failed or killed run leaves behind is removed by
    the next run.
  - Nothing is sent or downloaded if the store already has the image.
  - The image may be compressed as a whole with xz, gzip, zstd or bzip2. It is decompressed on the hypervisor while it
    arrives, and stored decompressed. O(checksum) is that of the compressed file, as it is published.
  - Both the format and the compression are determined from the content, never from the file's name. The format may be
    qcow2 or raw. An image that has a backing file or an external data file, is encrypted, in an archive, or in another
    format is refused, and the error names the command that converts it.
  - A truncated or damaged image is refused, as far as its own tables (C(qemu-img check)), its compression and
    O(checksum) can tell. A raw image has no such tables. Without a checksum, nothing can tell whether it is whole.
  - The file that the image comes from is never changed.
  - While an image is hashed, sent, downloaded, copied or decompressed, the play's output shows the progress, the rate
    and the time left every few seconds, but not for anything that takes less than three seconds. They are read over a
    second connection, if Ansible's connection is V(ssh) or V(local); over other connections,
    and with C(no_log), no progress is shown.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes.no_async
  - brine.virt._attributes
  - brine.virt._root
  - brine.virt._root.own_host
  - brine.virt._uri
attributes:
  check_mode:
    support: full
    details:
      - Nothing but a checksum file is sent or downloaded in check mode. For a O(url) that the store lacks, the server
        is asked whether the file exists, and the size that it reports has to fit into the pool. Whether such an image
        is usable is only found out in the real run; until then its format, size and sha256 are null.
      - A compressed file at O(path) is decompressed to check its content, but nothing of it is written. What only
        C(qemu-img) finds in such an image, and in that of O(src), is only found out in the real run as well.
      - No progress is shown.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description:
      - The name by which machines refer to the image.
      - Up to 63 letters, digits, dots, dashes and underscores, the first a letter or digit.
      - Required unless O(state=pruned), where it limits the work to the images of this name. For O(state=absent) it may
        also be the name of a volume, which is one of several images of a name.
    type: str
  state:
    description:
      - V(present) makes sure that the image is in the store.
      - V(absent) removes the image O(name), in all versions that are stored under this name. If anything uses one of
        them, the task fails, names what uses it, and removes none.
      - V(pruned) removes all images that nothing uses, except the newest of each name, see O(keep).
      - A file that only has the name of an image is kept. It is an image if it has the extended attribute that this
        module notes; on a file system without such attributes, if it has the mode of a stored image (V(0444), V(0400)).
        Any other one, such as an image that came with a machine that was moved, is read in full before it is removed,
        and its SHA-256 has to fit its name.
      - An option that does not apply to the state is an error.
      - An image is in use by a machine, running or not, if it is one of the machine's disks or backs one, if the
        machine was created from it, or has a snapshot with it. It is also in use by any volume in an active storage
        pool that it backs, even if no machine uses this volume. Images that are being stored are not touched, and no
        machine is created on this hypervisor in the meantime.
    type: str
    choices: [present, absent, pruned]
    default: present
  src:
    description:
      - An image file on the controller. O(state=present) needs one of O(src), O(url), O(path) and O(machine).
      - A relative path is looked for in C(files) of the role or playbook, as usual.
      - A compressed file is sent as it is. The controller looks into it first, which needs the program C(zstd) there
        for zstd; without it, only the hypervisor does.
      - While it is sent, it needs space for a second copy in the hypervisor's temporary directory (C(remote_tmp)).
    type: str
  url:
    description:
      - The address of an image, beginning with C(https://) or C(http://). The hypervisor downloads it.
      - It may have a user and a password before the host, as in C(https://USER:PASSWORD@example.org/debian.qcow2), or a
        token in its query. Neither appears in the hypervisor's log, in the output of Ansible or in what the store
        keeps; errors show eight asterisks instead. The same goes for the address of a checksum file.
      - O(checksum) is required, so that the store can be checked first.
    type: str
  path:
    description:
      - An image file on the hypervisor. Its blocks are shared with the stored image where the file system supports it
        and the file is not compressed.
    type: path
  machine:
    description:
      - A machine of this hypervisor, of which the image is made. It has to be off, and stays as it is.
      - The image has the content of one disk (O(disk)) in one file, together with what that disk is backed by. Further
        disks are not in it.
      - If nobody has written to the disk since the image was made, nothing is done. A disk that is a device, such as a
        logical volume, has to be read in full to find that out, in check mode as well.
      - What identifies the machine is removed from the image with C(virt-sysprep), such as its host name, SSH host
        keys, machine-id, logs and what cloud-init remembers of it, and the C(.ssh) directories, mail and crontabs of
        its users. The users and their passwords stay.
      - On storage that only this hypervisor has, no user except root and QEMU's can read the image (mode V(0400)). On
        shared storage, and with C(dynamic_ownership = 0) in libvirt's C(qemu.conf), it can be read by all, as images
        from elsewhere can (V(0444)), so that every QEMU can.
    type: str
    version_added: "1.0.0"
  disk:
    description:
      - The disk of O(machine) that the image is made of, by the name that M(brine.virt.virt_init) gave it, such as
        V(data), or by its target, such as V(vdb). By default it is the disk that the machine boots from, which is the
        first one unless the machine says otherwise.
      - The identity is only removed from the disk that the machine boots from. Any other one is copied as it is, with
        everything that is on it.
    type: str
    version_added: "1.0.0"
  keep_identity:
    description:
      - Leaves everything that identifies the machine in the image of O(machine). Two machines that are created from it
        must not run at the same time.
    type: bool
    default: false
    version_added: "1.0.0"
  checksum:
    description:
      - The hash of the file, as C(sha256:) or C(sha512:) and the hex digits. A file with another hash is refused. It is
        verified before the image enters the store.
      - Or the address of a checksum file, as distributions publish them alongside their images. With an algorithm
        before it, as in C(sha256:https://example.org/CHECKSUM), only that one is used; otherwise the longest hash in
        the file is used.
      - A checksum file has lines as C(sha256sum) writes them, with or without C(--tag), or a single hash. Comments and
        a PGP signature around them are skipped; the signature is not verified. The line is found by the last part of
        O(url), O(path) or O(src). If there is none, the task fails.
      - The checksum file is fetched at each run, by the hypervisor for O(url) and O(path), and by the controller for
        O(src). It may be 1 MiB at most. A redirect from C(https) to C(http) is not followed.
      - With a checksum file, O(url) may be one whose content changes, such as the newest build of a release. The image
        is downloaded again when the file has a new checksum for it.
      - Not for O(machine).
    type: str
  content_checksum:
    description:
      - The hash of the image itself, decompressed, as C(sha256:) and the hex digits. An image with another hash is
        refused.
      - The store is searched for it as well. So an image that the store has is not transferred again, even if it is not
        known which file it came from.
      - For O(src) it is not needed, as the controller determines it. Not for O(machine).
    type: str
  pool:
    description:
      - The storage pool that the store is in. It must be of type dir, fs or netfs, and active.
      - For O(state=absent) and O(state=pruned) it may be of type rbd too. An image is copied into such a pool when the
        first machine is created from it there. An image that has a clone, or a snapshot of somebody else's, is in
        use, and a volume that only has the name of an image is kept.
    type: str
    default: images
  keep:
    description:
      - How many images of each name O(state=pruned) keeps although nothing uses them. These are the ones stored last;
        images in use are counted too.
      - V(0) removes all images that nothing uses. The default for O(state=pruned) is V(1).
    type: int
  ignore_unseen:
    description:
      - If it cannot be determined whether an image is in use, because a storage pool is not active or a disk is
        missing or cannot be read, O(state=pruned) removes nothing and warns, and O(state=absent) fails.
      - V(true) assumes that nothing in such places uses an image. It does not cover other hypervisors, see
        O(used_elsewhere).
    type: bool
    default: false
  used_elsewhere:
    description:
      - The volumes of the pool that machines of other hypervisors use, by name. They are not removed.
      - One hypervisor cannot see what the machines of another one use. In a pool that several may share, nothing is
        removed unless this option is given, which confirms that all the others were asked. A pool may be shared if it
        is of type V(netfs) or V(rbd), or is on a network or cluster file system (NFS, CephFS, GlusterFS, GFS2, OCFS2
        and such), or in a directory that this host exports by NFS.
      - The empty list means that they were asked, and use none.
      - They are asked some time before. An image of a directory that has come or been taken into use in the last 10
        minutes is therefore kept, by the time of the last change of its file; the clocks of the hypervisors and of the
        server have to agree on it.
      - What each of them answers is RV(used_here), which also has what is kept there out of doubt. RV(kept[].used_by)
        does not have that.
    type: list
    elements: str
  known_images:
    description:
      - The images of O(pool), as RV(brine.virt.virt_host_info#module:host.images) has just listed them.
      - In check mode the hypervisor is not asked again about one of them that is noted to come from the same file, by
        the hash of O(src), or by O(checksum) for O(url).
    type: list
    elements: dict
    version_added: "1.0.0"
  timeout:
    description:
      - Seconds until a download or a decompression is aborted, and how long to wait for another run that works on the
        same store or creates machines.
      - A download is aborted earlier if the server sends nothing for a minute.
    type: int
    default: 3600
requirements:
  - qemu-img (package C(qemu-utils) on Debian and Ubuntu, C(qemu-img) elsewhere) on the host that the task runs on
  - zstd (package C(zstd)) on the host that the task runs on, for images that are compressed with it
  - virt-sysprep (package C(guestfs-tools)) on the host that the task runs on, for O(machine) without O(keep_identity)
notes:
  - The checksums of the files that an image came from are kept in an extended attribute of the stored file
    (C(user.brine.provenance)), so that they are known when the task runs again. On a file system without extended
    attributes, a compressed image is transferred again at each run before it turns out to be stored already, and a
    warning says so; check mode then reports a change that the real run does not make. There, the C(sha512) of an image
    that is not compressed is determined by reading the stored images of this O(name).
  - Decompression leaves 1 GiB of the store's file system free, or one fiftieth of a small one, and is aborted before it
    would use more. A small compressed file can expand to more than any disk can hold.
  - An image that the store has under another name is neither transferred nor stored twice. The file gets the new name
    too (a hard link), and is deleted with its last name. Where the file system has no hard links, it is copied within
    the store.
seealso:
  - module: brine.virt.virt_init
  - module: ansible.builtin.get_url
"""

EXAMPLES = r"""
---
- name: Store an image from the controller on every hypervisor
  brine.virt.virt_image:
    name: centos
    src: centos.qcow2

- name: Store a specific build of Debian
  brine.virt.virt_image:
    name: debian
    url: https://cloud.debian.org/images/cloud/trixie/20250814-2204/debian-13-genericcloud-amd64-20250814-2204.qcow2
    checksum: https://cloud.debian.org/images/cloud/trixie/20250814-2204/SHA512SUMS

- name: Store the newest build of Ubuntu, and download it again when there is a newer one
  brine.virt.virt_image:
    name: ubuntu
    url: https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img
    checksum: sha256:https://cloud-images.ubuntu.com/noble/current/SHA256SUMS

- name: Store Fedora, whose checksum file is signed
  brine.virt.virt_image:
    name: fedora
    url: "{{ fedora }}/Fedora-Cloud-Base-Generic-42-1.1.x86_64.qcow2"
    checksum: "{{ fedora }}/Fedora-Cloud-42-1.1-x86_64-CHECKSUM"
  vars:
    fedora: https://download.fedoraproject.org/pub/fedora/linux/releases/42/Cloud/x86_64/images

- name: Store an image that is published compressed, with the checksum of the compressed file
  brine.virt.virt_image:
    name: coreos
    url: "{{ coreos }}/42.20250803.3.0/x86_64/fedora-coreos-42.20250803.3.0-qemu.x86_64.qcow2.xz"
    checksum: "sha256:{{ coreos_sha256 }}"
  vars:
    coreos: https://builds.coreos.fedoraproject.org/prod/streams/stable/builds

- name: Store an image that is already on the hypervisor
  brine.virt.virt_image:
    name: appliance
    path: /srv/appliance.raw.zst
  register: appliance

- name: Shut down the machine that others are to be like
  brine.virt.virt_power:
    name: golden
    state: stopped

- name: Store an image of it
  brine.virt.virt_image:
    name: web-base
    machine: golden

- name: Store an image of its data disk as well
  brine.virt.virt_image:
    name: web-base-data
    machine: golden
    disk: data

- name: Create a machine that is backed by exactly this image
  brine.virt.virt_init:
    name: app1
    vcpus: 1
    memory: 1024
    image: "{{ appliance.image.volume }}"

- name: See which images nothing uses
  brine.virt.virt_image:
    state: pruned
    keep: 0
  check_mode: true
  register: unused

- name: Remove all builds of Ubuntu that nothing uses, except the two newest
  brine.virt.virt_image:
    name: ubuntu
    state: pruned
    keep: 2

- name: Ask every hypervisor which images of the pool that they share are in use
  brine.virt.virt_image:
    state: pruned
    keep: 0
  check_mode: true
  register: seen

- name: Remove what none of them uses from the shared pool
  brine.virt.virt_image:
    state: pruned
    used_elsewhere: >-
      {{ groups['hypervisors'] | map('extract', hostvars, ['seen', 'used_here']) | flatten | unique }}
  run_once: true

- name: Remove one build, unless something uses it
  brine.virt.virt_image:
    name: ubuntu-4f2c9e5d1b7a8036.qcow2
    state: absent
"""

RETURN = r"""
image:
  description:
    - The image in the store.
    - In check mode, what is not yet known about an image is null.
  returned: O(state=present)
  type: dict
  contains:
    name:
      description: The name by which machines refer to it.
      returned: always
      type: str
      sample: debian
    volume:
      description: The volume's name, which identifies the content.
      returned: always
      type: str
      sample: debian-4f2c9e5d1b7a8036.qcow2
    pool:
      description: The storage pool.
      returned: always
      type: str
      sample: images
    path:
      description: Its path on the hypervisor.
      returned: always
      type: str
      sample: /var/lib/libvirt/virt-images/debian-4f2c9e5d1b7a8036.qcow2
    format:
      description: The format, V(qcow2) or V(raw).
      returned: always
      type: str
      sample: qcow2
    sha256:
      description: The hash of the whole stored file. For a compressed image this is not the published checksum.
      returned: always
      type: str
      sample: 4f2c9e5d1b7a8036c0a2b1d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718
    size_bytes:
      description: The size of the file.
      returned: always
      type: int
      sample: 343932928
    virtual_size_bytes:
      description: The size of the disk that a machine sees.
      returned: always
      type: int
      sample: 3221225472
stored:
  description:
    - Whether the image is in the store, with a note of the file that it comes from.
    - In check mode, whether a run would have nothing to do for that.
  returned: O(state=present)
  type: bool
  sample: true
origin:
  description:
    - A hash of the state of the disk that the image is made of. As long as nobody has written to that disk, it is the
      same. Images of several disks of a machine go together if none of these hashes has changed when the last one is
      made.
  returned: O(state=present) with O(machine)
  type: str
  sample: sha256:9b74c9897bac770ffc029102a200c5de9b74c9897bac770ffc029102a200c5de
pruned:
  description: The images that were removed; in check mode, those that would be.
  returned: O(state=pruned) or O(state=absent)
  type: list
  elements: dict
  contains:
    name:
      description: The name by which machines referred to it.
      returned: always
      type: str
      sample: ubuntu
    volume:
      description: The volume's name.
      returned: always
      type: str
      sample: ubuntu-4f2c9e5d1b7a8036.qcow2
    pool:
      description: The storage pool.
      returned: always
      type: str
      sample: images
    size_bytes:
      description: The size of the file; null in a pool of type rbd.
      returned: always
      type: int
      sample: 618925568
kept:
  description: The images that were considered and kept.
  returned: O(state=pruned)
  type: list
  elements: dict
  contains:
    name:
      description: The name by which machines refer to it.
      returned: always
      type: str
      sample: debian
    volume:
      description: The volume's name.
      returned: always
      type: str
      sample: debian-4f2c9e5d1b7a8036.qcow2
    pool:
      description: The storage pool.
      returned: always
      type: str
      sample: images
    size_bytes:
      description: The size of the file.
      returned: always
      type: int
      sample: 343932928
    used_by:
      description: What uses it.
      returned: always
      type: list
      elements: str
      sample: [machine web1, volume default/web1-system.qcow2]
    reason:
      description: Why it is kept.
      returned: always
      type: str
      sample: used by machine web1, volume default/web1-system.qcow2
used_here:
  description:
    - The volumes, of the images that were considered, that something on this hypervisor uses or may use, for
      O(used_elsewhere) on another hypervisor. It also has those that another hypervisor has brought and libvirt here
      does not list yet.
    - If it cannot be determined here what is in use, as with a storage pool that is not active, these are all of them,
      unless O(ignore_unseen=true).
  returned: O(state=pruned)
  type: list
  elements: str
  sample: [debian-4f2c9e5d1b7a8036.qcow2]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE
from ansible_collections.brine.virt.plugins.module_utils._model.withheld import SecretOptions, opened
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_module, require_root
from ansible_collections.brine.virt.plugins.module_utils._operations.images import SOURCES, change_images
from ansible_collections.brine.virt.plugins.module_utils._seeding.secret_values import has_secrets

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent", "pruned"], "default": "present"},
    "src": {"type": "str"},
    "url": {"type": "str"},
    "path": {"type": "path"},
    "machine": {"type": "str"},
    "disk": {"type": "str"},
    "keep_identity": {"type": "bool", "default": False},
    "checksum": {"type": "str"},
    "content_checksum": {"type": "str"},
    "pool": {"type": "str", "default": "images"},
    "keep": {"type": "int"},
    "ignore_unseen": {"type": "bool", "default": False},
    "used_elsewhere": {"type": "list", "elements": "str"},
    "known_images": {"type": "list", "elements": "dict"},
    "timeout": {"type": "int", "default": 3600},
}


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Do it, or say what would be done."""
    params = opened(module.params)
    require_root("virt_image", params["uri"], "images")
    return change_images(params, check_mode=module.check_mode, warn=module.warn)


def main() -> None:
    module = make_module(
        ARGUMENTS,
        mutually_exclusive=[SOURCES],
        required_if=[
            ("state", "present", ("name",)),
            ("state", "present", SOURCES, True),
            ("state", "absent", ("name",)),
        ],
        required_by={"url": "checksum"},
        secrets=SecretOptions(left_in=has_secrets),
        beside=[PROGRESS_FILE],
    )
    finish(module, work)


if __name__ == "__main__":
    main()
