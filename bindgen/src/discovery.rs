// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Recognises the layout of the loaded libibverbs by measuring it.

use std::mem::size_of;

use crate::{
    Decline,
    generation::{Generation, Sizes},
    ops::Op,
    places,
    probe::{Probe, slot_of_marker},
    public::ibv_context,
};

const WORD: usize = size_of::<usize>();

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) sizes: Sizes,
    /// Every operation that the public ABI shows, with the slot it was shown to stand in.
    pub(crate) slots: Vec<(Op, Option<usize>)>,
}

/// Measures the libibverbs that made `probe`, whose private ABI is `pabi`.
pub(crate) fn measure(probe: &Probe<'_>, pabi: u32) -> Result<Measured, Decline> {
    let missing = |what| Decline::Unrecognisable { pabi, what };
    let context = probe.context();

    let public = public_part(context, probe.device()).ok_or(missing("ibv_context"))?;
    let private = public
        .checked_sub(places::PRIVATE)
        .ok_or(missing("verbs_context.priv"))?;
    // SAFETY: `verbs_context.priv` has this place in the public ABI, `public_part` found what
    // stands behind it to be the end of a `verbs_context`, and libibverbs allocates what it points
    // to by `calloc` (rdma-core v44.0 libibverbs/device.c: verbs_init_context).
    let ops = ops_size(unsafe { probe.private(private) }).ok_or(missing("verbs_context_ops"))?;
    let qp_comp_mask = probe.qp_comp_mask().ok_or(missing("verbs_qp.comp_mask"))?;

    let size_of_verbs_context = public
        .saturating_mul(WORD)
        .saturating_add(size_of::<ibv_context>());
    Ok(Measured {
        sizes: Sizes {
            ops,
            context: size_of_verbs_context,
            qp_comp_mask,
        },
        slots: shown_slots(context, public),
    })
}

/// The known generation that equals what was measured in every place.
pub(crate) fn identify(pabi: u32, measured: &Measured) -> Result<&'static Generation, Decline> {
    let generation = Generation::of_pabi(pabi)
        .find(|known| known.sizes == measured.sizes)
        .ok_or(Decline::UnknownSizes {
            pabi,
            found: measured.sizes,
        })?;
    for &(op, found) in &measured.slots {
        // The place of an operation that the generation lacks lies outside of its `verbs_context`.
        if let Some(expected) = generation.slot(op)
            && found != Some(expected)
        {
            return Err(Decline::MovedOp {
                pabi,
                generation: generation.name,
                op,
                found,
                expected,
            });
        }
    }
    Ok(generation)
}

/// The word of `context` at which its last member, the `ibv_context`, begins.
///
/// Its first member is the device, and the word before is the size of the whole.
fn public_part(context: &[usize], device: usize) -> Option<usize> {
    let ends = (size_of::<ibv_context>()..).step_by(WORD);
    context
        .iter()
        .zip(ends)
        .enumerate()
        .skip(places::SIZE)
        .find_map(|(word, (&value, end))| {
            let size = *context.get(word.checked_sub(places::SIZE)?)?;
            (value == device && size == end).then_some(word)
        })
}

/// Bytes of the table of operations in libibverbs' private part: the markers from the first to
/// the last that libibverbs took over.
fn ops_size(private: &[usize]) -> Option<usize> {
    let slots = private
        .iter()
        .map(|&word| slot_of_marker(word))
        .skip_while(|&slot| slot != Some(0))
        .zip(0..)
        .take_while(|&(slot, expected)| slot == Some(expected))
        .count();
    (slots > 0).then(|| slots.saturating_mul(WORD))
}

/// The slots that a context shows whose `ibv_context` begins at word `public`.
fn shown_slots(context: &[usize], public: usize) -> Vec<(Op, Option<usize>)> {
    let slot_at = |index: Option<usize>| slot_of_marker(*context.get(index?)?);
    let behind = places::BEHIND
        .iter()
        .map(|&(op, words)| (op, slot_at(public.checked_add(words))));
    let before = places::BEFORE
        .iter()
        .map(|&(op, words)| (op, slot_at(public.checked_sub(words))));
    behind.chain(before).collect()
}

#[cfg(test)]
mod tests;
