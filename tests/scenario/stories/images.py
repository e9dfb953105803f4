# SPDX-License-Identifier: GPL-3.0-or-later
"""The image store on real hypervisors: the playbook tests/integration/lab/virt_image.yml has the proofs."""

from __future__ import annotations

from ..cloud import Cloud, must
from ..teller import Teller


def tell(teller: Teller, cloud: Cloud) -> None:
    teller.step("every way of an image into the store and out of it, and every refusal", lambda: _play(cloud))


def _play(cloud: Cloud) -> None:
    playbook = str(cloud.root / "tests/integration/lab/virt_image.yml")
    words = [*cloud.sources(live=False), playbook, "--extra-vars", f"lab_hypervisors={','.join(cloud.hosts)}"]
    answer = cloud.run(str(cloud.bin / "ansible-playbook"), *words)
    must(answer.status == 0 and answer.recap("failed") == 0, answer.text)
