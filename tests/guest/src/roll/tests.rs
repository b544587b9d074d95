// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

use super::*;

const QP: u32 = 17;

fn roll_of(count: usize, due: Due) -> (Roll, LineId) {
    let roll = Roll::new();
    let line = roll.open("send".to_owned(), Some(QP));
    for _ in 0..count {
        roll.enter(line, sys::IBV_WC_SEND, due);
    }
    (roll, line)
}

fn completion(wr_id: u64, status: sys::ibv_wc_status) -> Wc {
    let mut wc = Wc::untouched();
    (wc.0.wr_id, wc.0.status, wc.0.qp_num, wc.0.vendor_err) = (wr_id, status, QP, 0);
    wc
}

fn verdict(answers: &[(usize, sys::ibv_wc_status)], due: Due) -> Vec<(&'static str, usize)> {
    let (roll, line) = roll_of(3, due);
    for &(at, status) in answers {
        roll.answer(&completion(wr_id(line, at), status));
    }
    roll.faults().kinds()
}

const OK: sys::ibv_wc_status = sys::IBV_WC_SUCCESS;
const FLUSH: sys::ibv_wc_status = sys::IBV_WC_WR_FLUSH_ERR;

#[test]
fn each_once_and_in_order() {
    let all = [(0, OK), (1, FLUSH), (2, FLUSH)];
    assert_eq!(verdict(&all, Due::Always), []);
    assert_eq!(verdict(&all[..2], Due::Always), [("lost", 1)]);
    assert_eq!(
        verdict(&[(0, OK), (0, OK), (1, OK), (2, OK)], Due::Always),
        [("doubled", 1)]
    );
    assert_eq!(
        verdict(&[(1, OK), (0, OK), (2, OK)], Due::Always),
        [("misordered", 1)]
    );
    assert_eq!(
        verdict(&[(0, FLUSH), (1, OK), (2, FLUSH)], Due::Always),
        [("wrong", 1)]
    );
}

#[test]
fn unsignaled_requests_speak_up_when_they_fail() {
    assert_eq!(verdict(&[], Due::IfItFails), []);
    assert_eq!(verdict(&[(1, FLUSH), (2, FLUSH)], Due::IfItFails), []);
    assert_eq!(
        verdict(&[(0, FLUSH), (2, FLUSH)], Due::IfItFails),
        [("lost", 1)]
    );
    assert_eq!(verdict(&[(0, OK)], Due::IfItFails), [("ghosts", 1)]);
    let (roll, line) = roll_of(3, Due::IfItFails);
    roll.demand_all(line);
    assert_eq!(roll.outstanding(), 3);
}

#[test]
fn refused_requests_stay_silent() {
    let (roll, line) = roll_of(3, Due::Always);
    roll.refuse(line, 2);
    assert_eq!(roll.outstanding(), 1);
    roll.answer(&completion(wr_id(line, 1), FLUSH));
    roll.answer(&completion(7, FLUSH));
    let faults = roll.faults().to_string();
    assert!(faults.starts_with("lost 1 (send 0), doubled 0, ghosts 2 (send 1: "));
}
