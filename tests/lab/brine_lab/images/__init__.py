# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""File trees and guest images, built once and cached, and whether guests run under KVM here."""
