// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The layouts of the private ABI that are known.
//!
//! A private ABI number promises a layout, and twice the promise was not kept: within 34,
//! `verbs_qp` grew in v44 and in v45, and within 59, the table of operations and `verbs_context`
//! grew in v62. So a layout is known by its *generation*, which is measured, and not by the number.
//! The letters A (v34, v35) and B (v36 to v43) stand for older layouts, which are not served.

use std::fmt;

use crate::{ops::Op, probe::TABLE_SLOTS, provider::verbs_qp, public::ibv_context};

/// The sizes that tell generations of one private ABI apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of the table of operations, `verbs_context_ops`.
    pub ops: usize,
    /// Bytes of `verbs_context`, with the `ibv_context` at its end.
    pub context: usize,
    /// Offset in bytes of `verbs_qp`'s `comp_mask`.
    pub qp_comp_mask: usize,
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ops,
            context,
            qp_comp_mask,
        } = self;
        write!(
            f,
            "ops {ops}, context {context}, comp_mask at {qp_comp_mask}"
        )
    }
}

/// One layout of the private ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its letter; a later letter is a later layout.
    pub name: char,
    /// The releases of rdma-core that have it.
    pub releases: &'static str,
    /// The private ABI numbers it appears under.
    pub pabis: &'static [u32],
    /// The sizes it is recognised by.
    pub sizes: Sizes,
}

impl Generation {
    /// Every generation that is served, oldest first.
    pub const KNOWN: [Self; 6] = [
        Self {
            name: 'C',
            releases: "44",
            pabis: &[34],
            sizes: Sizes {
                ops: 608,
                context: 648,
                qp_comp_mask: 352,
            },
        },
        Self {
            name: 'D',
            releases: "45 to 58",
            pabis: &[34, 57],
            sizes: Sizes {
                ops: 608,
                context: 648,
                qp_comp_mask: 360,
            },
        },
        Self {
            name: 'E',
            releases: "59 to 61",
            pabis: &[59],
            sizes: Sizes {
                ops: 632,
                context: 672,
                qp_comp_mask: 360,
            },
        },
        Self {
            name: 'F',
            releases: "62 and 63",
            pabis: &[59],
            sizes: Sizes {
                ops: 648,
                context: 680,
                qp_comp_mask: 360,
            },
        },
        Self {
            name: 'G',
            releases: "64",
            pabis: &[64],
            sizes: Sizes {
                ops: 664,
                context: 696,
                qp_comp_mask: 360,
            },
        },
        Self {
            name: 'H',
            releases: "65",
            pabis: &[65],
            sizes: Sizes {
                ops: 744,
                context: 696,
                qp_comp_mask: 360,
            },
        },
    ];

    /// Every private ABI number that is served.
    pub const PABIS: [u32; 5] = [34, 57, 59, 64, 65];

    /// The generations that appear under the private ABI `pabi`.
    pub fn of_pabi(pabi: u32) -> impl Iterator<Item = &'static Self> {
        Self::KNOWN
            .iter()
            .filter(move |generation| generation.pabis.contains(&pabi))
    }

    /// The operations of this generation's table, each with its slot, counted in pointers.
    ///
    /// The table is kept in alphabetical order and never lost an entry, so an operation stands
    /// behind exactly those of its predecessors that the generation has.
    pub fn slots(&self) -> impl Iterator<Item = (Op, usize)> {
        Op::ALL
            .iter()
            .copied()
            .filter(|op| op.since() <= self.name)
            .zip(0..)
    }

    /// The slot of `op` in this generation's table, if it has it.
    pub fn slot(&self, op: Op) -> Option<usize> {
        self.slots()
            .find_map(|(other, slot)| (other == op).then_some(slot))
    }

    /// Bytes from the start of a `verbs_context` to the `ibv_context` at its end.
    pub const fn public_offset(&self) -> usize {
        self.sizes.context.saturating_sub(size_of::<ibv_context>())
    }
}

const _: () = {
    let mut known: &[Generation] = &Generation::KNOWN;
    while let [generation, rest @ ..] = known {
        let Sizes {
            ops,
            context,
            qp_comp_mask,
        } = generation.sizes;
        assert!(ops <= size_of::<[usize; TABLE_SLOTS]>());
        assert!(context > size_of::<ibv_context>());
        assert!(qp_comp_mask.is_multiple_of(align_of::<u32>()));
        assert!(qp_comp_mask + 16 <= size_of::<verbs_qp>());
        known = rest;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_are_in_the_order_of_the_table() {
        assert!(Op::ALL.is_sorted_by_key(|op| op.name()));
    }

    #[test]
    fn each_table_has_as_many_slots_as_its_size_says() {
        for generation in Generation::KNOWN {
            let slots = generation.slots().count();
            assert_eq!(
                slots * size_of::<usize>(),
                generation.sizes.ops,
                "{}",
                generation.name
            );
        }
    }

    #[test]
    fn the_ops_that_no_public_struct_shows_stand_where_they_were_read() {
        let of = |op| Generation::KNOWN.map(|g| g.slot(op).map(|slot| slot * size_of::<usize>()));
        let offsets = |bytes: [usize; 6]| bytes.map(Some);

        // Generations C to H, from the layout of each release's `verbs_context_ops`.
        assert_eq!(
            of(Op::free_context),
            offsets([312, 312, 328, 336, 352, 368])
        );
        assert_eq!(
            of(Op::query_device_ex),
            offsets([464, 464, 480, 488, 504, 552])
        );
        assert_eq!(of(Op::query_port), offsets([480, 480, 496, 504, 520, 568]));
    }

    #[test]
    fn every_generation_is_reached_by_its_private_abi() {
        for generation in Generation::KNOWN {
            for pabi in generation.pabis {
                assert!(Generation::PABIS.contains(pabi));
                assert!(Generation::of_pabi(*pabi).any(|known| *known == generation));
            }
        }
        for pabi in Generation::PABIS {
            assert!(Generation::of_pabi(pabi).next().is_some());
        }
    }

    #[test]
    fn sizes_tell_the_generations_of_one_private_abi_apart() {
        for pabi in Generation::PABIS {
            for generation in Generation::of_pabi(pabi) {
                let same = Generation::of_pabi(pabi).filter(|g| g.sizes == generation.sizes);
                assert_eq!(same.count(), 1);
            }
        }
    }
}
