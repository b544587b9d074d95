/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <rdma/siw-abi.h>
