/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The C headers this crate mirrors. */
#include <infiniband/verbs.h>

#ifdef WITH_RDMA_CM
#include <rdma/rdma_cma.h>
#endif
