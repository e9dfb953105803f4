#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: have an image in a hypervisor's store. The action plugin of this name is its controller half."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_image
short_description: Have a disk image in a hypervisor's image store
version_added: "0.1.0"
description:
  - Brings a disk image from the controller, from the web, or from a path on the hypervisor into the image store, which
    is a storage pool of files.
  - A stored image is named after its content, C(NAME-DIGEST.FORMAT) with the first 16 digits of its sha256. It is
    read-only and never overwritten, so machines can stand on it as long as they like. The same name means the same
    bytes on every hypervisor. An image with new content under an old name is stored beside the old one.
  - The image is there whole or not at all. What a broken or killed run leaves is cleared by the next run.
  - Nothing is sent or downloaded when the store has the image already.
  - The format is found by looking at the content, never by the file's name. It may be qcow2 or raw. An image that has a
    backing file or an external data file, is encrypted, compressed as a whole, or in another format is refused, and
    the error names the command that makes it fit.
  - The file that the image comes from is never changed.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._uri
attributes:
  check_mode:
    support: full
    details:
      - Nothing is sent or downloaded in check mode, so an image at O(url) that turns out to be unusable is only found
        out by the real run.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description:
      - What machines call the image.
      - Up to 63 letters, digits, dots, dashes and underscores, the first a letter or digit.
    type: str
    required: true
  src:
    description:
      - An image file on the controller.
      - A relative path is looked for in C(files) of the role or playbook, as usual.
      - It takes room for a second copy in the hypervisor's temporary directory (C(remote_tmp)) while it is sent.
    type: str
  url:
    description:
      - The address of an image, beginning with C(https://) or C(http://). The hypervisor downloads it.
      - O(checksum) is required, so that the store can be asked first.
    type: str
  path:
    description: An image file on the hypervisor. Its blocks are shared with the stored image where the file system can.
    type: path
  checksum:
    description:
      - What the file hashes to, as C(sha256:) or C(sha512:) and the hex digits. Anything else is refused.
      - A sha256 is found in the store by name. For a sha512, the stored images of this O(name) are read
        and hashed at each run, which takes some seconds for each GB.
    type: str
  pool:
    description: The storage pool that the store is in. It must be of type dir, fs or netfs, and active.
    type: str
    default: images
  timeout:
    description:
      - Seconds until a download is given up, and how long to wait for another run that works on the same store.
      - A server that sends nothing for a minute is given up earlier.
    type: int
    default: 3600
requirements:
  - qemu-img (package C(qemu-utils) on Debian and Ubuntu, C(qemu-img) elsewhere) on the host that the task runs on
notes:
  - The task runs on the hypervisor itself, as a user who may write to the pool's directory, usually root.
seealso:
  - module: brine.virt.virt_init
"""

EXAMPLES = r"""
---
- name: Have an image of the controller on every hypervisor
  brine.virt.virt_image:
    name: centos
    src: centos.qcow2

- name: Have an image of the web
  brine.virt.virt_image:
    name: debian
    url: https://cloud.debian.org/images/cloud/trixie/20250814-2204/debian-13-genericcloud-amd64-20250814-2204.qcow2
    checksum: "{{ debian_checksum }}"
  vars:
    # From the file SHA512SUMS beside the image.
    debian_checksum: "sha512:{{ debian_sha512 }}"

- name: Have an image that somebody put on the hypervisor
  brine.virt.virt_image:
    name: appliance
    path: /srv/appliance.raw
  register: appliance

- name: Make a machine that stands on exactly this image
  brine.virt.virt_init:
    name: app1
    vcpus: 1
    memory: 1024
    image: "{{ appliance.image.volume }}"
"""

RETURN = r"""
image:
  description:
    - The image in the store.
    - In check mode, what is not known of an image that is not stored yet is null.
  returned: success
  type: dict
  contains:
    name:
      description: What machines call it.
      type: str
      sample: debian
    volume:
      description: The volume's name, which says the content.
      type: str
      sample: debian-4f2c9e5d1b7a8036.qcow2
    pool:
      description: The storage pool.
      type: str
      sample: images
    path:
      description: Where it lies on the hypervisor.
      type: str
      sample: /var/lib/libvirt/images/brine/debian-4f2c9e5d1b7a8036.qcow2
    format:
      description: The format, V(qcow2) or V(raw).
      type: str
      sample: qcow2
    sha256:
      description: What all bytes of the file hash to.
      type: str
      sample: 4f2c9e5d1b7a8036c0a2b1d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718
    size_bytes:
      description: How large the file is.
      type: int
      sample: 343932928
    virtual_size_bytes:
      description: How large the disk is that a machine sees.
      type: int
      sample: 3221225472
"""

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._arguments import finish, make_module
from ansible_collections.brine.virt.plugins.module_utils._host import image_files
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.image_fetch import check_url
from ansible_collections.brine.virt.plugins.module_utils._host.image_store import (
    ImageStore,
    Source,
    as_result,
    require_own_host,
)
from ansible_collections.brine.virt.plugins.module_utils._model import rules
from ansible_collections.brine.virt.plugins.module_utils._model.checksum import Checksum, parse_checksum


def main() -> None:
    """Run the module."""
    module = make_module(
        {
            "name": {"type": "str", "required": True},
            "src": {"type": "str"},
            "url": {"type": "str"},
            "path": {"type": "path"},
            "checksum": {"type": "str"},
            "pool": {"type": "str", "default": "images"},
            "timeout": {"type": "int", "default": 3600},
        },
        mutually_exclusive=[("src", "url", "path")],
        required_one_of=[("src", "url", "path")],
        # The action plugin gives the checksum of a src itself.
        required_by={"url": "checksum", "src": "checksum"},
    )
    finish(module, lambda: have_image(module.params, check_mode=module.check_mode))


def have_image(params: dict[str, t.Any], *, check_mode: bool) -> dict[str, t.Any]:
    """Have the image in the store, as far as this can be done on the hypervisor alone, and say what changed.

    For a file of the controller (src) the store is only asked: when it lacks the image, the answer is changed and has
    no volume, and the action plugin sends the file and calls again with its path.
    """
    name = rules.name(params["name"], "name")
    checksum = parse_checksum(params["checksum"], "checksum") if params["checksum"] else None
    path = params["path"]
    require_own_host(params["uri"])
    if params["url"]:
        check_url(params["url"], "url")
    elif path:
        image_files.require_file(path, "path")
    with open_connection(params["uri"]) as conn:
        store = ImageStore(conn, params["pool"])
        before = store.volumes(name)
        planned: dict[str, t.Any] = {}
        if path:
            source = Source(path=path, checksum=checksum)
            content = image_files.hash_file(path, source.algorithms)
            source.verify(content)
            checksum = Checksum("sha256", content.sha256)
        if checksum is None:
            raise AssertionError("contract violation: an image without a checksum")  # pragma: no cover
        kept = store.find(name, checksum)
        changed = kept is None
        if kept is None and path and check_mode:
            planned = store.planned(name, content, path)
        elif kept is None and not params["src"] and not check_mode:
            source = Source(path=path, url=params["url"], checksum=checksum)
            kept, changed = store.bring(name, source, image_files.Deadline(params["timeout"]))
    if checksum.algorithm == "sha256":
        planned.setdefault("sha256", checksum.digest)
    image = as_result(name, params["pool"], kept, planned)
    added = [image["volume"] or f"{name} with the {checksum}"] if changed else []
    return {
        "changed": changed,
        "image": image,
        "diff": {"before": {"volumes": before}, "after": {"volumes": sorted({*before, *added})}},
    }


if __name__ == "__main__":
    main()
