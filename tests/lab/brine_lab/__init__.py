# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""The lab of brine.virt: real hypervisors, as system containers, on one machine."""
