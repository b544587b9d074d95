# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# rdma-core's own Python tests, which python3-pyverbs installs as documentation. Fails if one of them does.

pyverbs() { # NAME DEVICE FOLDER
    # Debian's interpreter: pyverbs is built for that one.
    cp -r /usr/share/doc/rdma-core/tests "$3/tests" &&
        gunzip "$3"/tests/*.gz &&
        /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/python-tests.py" "$1" "$3/tests" "$2"
}
