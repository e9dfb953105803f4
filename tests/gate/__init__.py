# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate: what must hold before a change lands.

Run as `python -m tests.gate check` or `python -m tests.gate test` from the top of the checkout.
"""
