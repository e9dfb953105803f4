# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses are shown without their passwords and tokens."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._model.url import shown_url, url_secrets

H = "********"


@pytest.mark.parametrize(
    ("url", "shown", "secrets"),
    [
        ("https://example.org/a.qcow2", "https://example.org/a.qcow2", set()),
        ("https://me:p%40ss@example.org/a", f"https://me:{H}@example.org/a", {"p%40ss", "p@ss"}),
        ("https://ghp_token@example.org/a", f"https://{H}@example.org/a", {"ghp_token"}),
        ("https://me:@example.org/a", f"https://{H}:@example.org/a", {"me"}),
        ("https://me:a/b@example.org/a", f"https://me:{H}@example.org/a", {"a/b"}),
        ("https://example.org:8443/a@b", "https://example.org:8443/a@b", set()),
        ("https://example.org/a?arch=amd64&sig=ab%2Bc", f"https://example.org/a?arch={H}&sig={H}", {"ab%2Bc", "ab+c"}),
        ("https://example.org/a?tok en", f"https://example.org/a?{H}", set()),
        ("https://example.org/a#token=x", f"https://example.org/a#token={H}", {"x"}),
        ("sha256:https://me:pw@example.org/SUMS", f"sha256:https://me:{H}@example.org/SUMS", {"pw"}),
        ("wget 'https://me:pw@a/b' && mail x@y:z", f"wget 'https://me:{H}@a/b' && mail x@y:z", {"pw"}),
        (f"https://example.org/a?x={'9' * 20}", f"https://example.org/a?x={H}", {"9" * 20}),
        ("me:pw@example.org", "me:pw@example.org", set()),
    ],
)
def test_what_is_shown(url: str, shown: str, secrets: set[str]) -> None:
    assert shown_url(url) == shown
    assert url_secrets(url) == secrets
