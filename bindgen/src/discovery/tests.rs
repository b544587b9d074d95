// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Doctored layouts, each declined with the line that says what is wrong.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test fails where it stands"
)]

use super::*;
use crate::probe::marker;

/// What a libibverbs of `generation` would be measured as.
fn measured(generation: &Generation) -> Measured {
    let (context, public) = context(generation);
    Measured {
        sizes: generation.sizes,
        slots: shown_slots(&context, public),
    }
}

const DEVICE: usize = 0x1000;

/// A context of `generation` with the markers installed, and the word of its `ibv_context`.
fn context(generation: &Generation) -> (Vec<usize>, usize) {
    let public = generation.public_offset() / WORD;
    let mut words = vec![0; 512];
    words[public] = DEVICE;
    words[public - places::SIZE] = generation.sizes.context;
    for &(op, distance) in places::BEHIND {
        if let Some(slot) = generation.slot(op) {
            words[public + distance] = marker(slot);
        }
    }
    for &(op, distance) in places::BEFORE {
        if let Some(slot) = generation.slot(op) {
            words[public - distance] = marker(slot);
        }
    }
    (words, public)
}

/// The line that declines `measured`.
fn line(pabi: u32, measured: &Measured) -> String {
    identify(pabi, measured)
        .expect_err("a doctored layout is not served")
        .to_string()
}

#[test]
fn every_known_generation_is_recognised() {
    for generation in &Generation::KNOWN {
        for &pabi in generation.pabis {
            assert_eq!(identify(pabi, &measured(generation)), Ok(generation));
        }
    }
}

#[test]
fn the_public_part_is_where_device_and_size_agree() {
    for generation in &Generation::KNOWN {
        let (mut words, public) = context(generation);
        // The device's address alone does not make an `ibv_context`.
        words[2] = DEVICE;
        assert_eq!(public_part(&words, DEVICE), Some(public));
        words[public - places::SIZE] += WORD;
        assert_eq!(public_part(&words, DEVICE), None);
    }
}

#[test]
fn the_table_ends_where_the_markers_end() {
    let header = [7, 0];
    let table: Vec<usize> = (0..76).map(marker).collect();
    assert_eq!(ops_size(&[&header[..], &table, &[1]].concat()), Some(608));
    assert_eq!(ops_size(&[&header[..], &table].concat()), Some(608));
    // A slot that libibverbs did not take over ends it early, and then the size is unknown.
    assert_eq!(
        ops_size(&[&header[..], &table[..40], &[0], &table[41..]].concat()),
        Some(320)
    );
    assert_eq!(ops_size(&header), None);
    assert_eq!(ops_size(&[]), None);
}

#[test]
fn an_unknown_size_is_declined() {
    let [c, ..] = &Generation::KNOWN;
    let mut doctored = measured(c);
    doctored.sizes.qp_comp_mask = 344;
    assert_eq!(
        line(34, &doctored),
        "libibverbs with private ABI 34 has an unknown layout: \
         ops 608, context 648, comp_mask at 344; \
         known: ops 608, context 648, comp_mask at 352 or ops 608, context 648, comp_mask at 360"
    );
}

#[test]
fn a_known_layout_under_another_private_abi_is_declined() {
    let [.., g, h] = &Generation::KNOWN;
    assert_eq!(
        line(65, &measured(g)),
        "libibverbs with private ABI 65 has an unknown layout: \
         ops 664, context 696, comp_mask at 360; known: ops 744, context 696, comp_mask at 360"
    );
    assert_eq!(identify(65, &measured(h)), Ok(h));
}

#[test]
fn two_ops_that_changed_places_are_declined() {
    let [.., h] = &Generation::KNOWN;
    let mut doctored = measured(h);
    let [send, recv] = [Op::post_send, Op::post_recv].map(|op| h.slot(op));
    for (op, slot) in &mut doctored.slots {
        match op {
            Op::post_send => *slot = recv,
            Op::post_recv => *slot = send,
            _ => {}
        }
    }
    assert_eq!(
        line(65, &doctored),
        "libibverbs with private ABI 65 has post_send in slot 63, expected slot 64 \
         as in generation H"
    );
}

#[test]
fn an_op_that_is_not_shown_is_declined() {
    let [c, ..] = &Generation::KNOWN;
    let (mut words, public) = context(c);
    words[public - 13] = 0;
    let doctored = Measured {
        sizes: c.sizes,
        slots: shown_slots(&words, public),
    };
    assert_eq!(
        line(34, &doctored),
        "libibverbs with private ABI 34 has query_device_ex in no slot, expected slot 58 \
         as in generation C"
    );
}

#[test]
fn the_other_lines_name_what_was_missing() {
    assert_eq!(
        Decline::NotLoaded.to_string(),
        "libibverbs.so.1 is not loaded"
    );
    assert_eq!(
        Decline::UnknownPrivateAbi.to_string(),
        "libibverbs has none of the known private ABIs 34, 57, 59, 64, 65"
    );
    assert_eq!(
        Decline::MissingFunction {
            pabi: 34,
            name: c"verbs_set_ops"
        }
        .to_string(),
        "libibverbs with private ABI 34 lacks verbs_set_ops"
    );
    assert_eq!(
        Decline::Unrecognisable {
            pabi: 59,
            what: "ibv_context"
        }
        .to_string(),
        "libibverbs with private ABI 59: ibv_context not found"
    );
}
