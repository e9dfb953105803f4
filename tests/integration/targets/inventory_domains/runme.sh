#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
set -eux -o pipefail
ansible-playbook -i cloud.virt.yml check.yml "$@" 2>&1 | tee "$OUTPUT_DIR/said"
# The hypervisor that does not answer is named, and does not hide the other.
grep nowhere "$OUTPUT_DIR/said"
