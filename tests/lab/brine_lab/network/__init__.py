# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""The lab's segment: bridge, firewall, addresses, names and packages, and trouble made on purpose."""
