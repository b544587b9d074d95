# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Which provider the programs under test load, by environment alone:
#   PROVIDER=lastwqe   (default) the build in LASTWQE_DIR, a folder that scripts/install filled
#   PROVIDER=stock     what the distribution installed

PROVIDER=${PROVIDER:-lastwqe}
LASTWQE_DIR=${LASTWQE_DIR:-$(dirname "${BASH_SOURCE[0]}")/../../target/install/lib/lastwqe}

# The caller may have chosen a provider for itself; here PROVIDER alone decides.
unset RDMAV_DRIVERS IBV_DRIVERS

case $PROVIDER in
lastwqe)
    if ! compgen -G "$LASTWQE_DIR/liblastwqe-rdmav*.so" >/dev/null; then
        echo "no liblastwqe-rdmav*.so in $LASTWQE_DIR: run scripts/install target/install, or set LASTWQE_DIR" >&2
        exit 2
    fi
    LASTWQE_DIR=$(realpath "$LASTWQE_DIR")
    export LD_LIBRARY_PATH=$LASTWQE_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} RDMAV_DRIVERS=lastwqe
    ;;
stock) ;;
*)
    echo "PROVIDER is $PROVIDER, not lastwqe or stock" >&2
    exit 2
    ;;
esac
