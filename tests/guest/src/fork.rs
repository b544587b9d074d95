// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `fork`: a process forks while its QPs work, and what the child does with its copy of the library
//! does not disturb the parent: it ends at once or in good order, runs another program, or goes on.

use std::os::unix::process::CommandExt;
use std::process::Command;

use guest::links::Device;
use guest::pair::Pair;
use guest::payload::message;
use guest::process::Process;
use guest::roll::Roll;
use guest::suite::{Outcome, Suite};
use guest::verbs::{PATIENCE, SendWr, Transport, sys};

/// Bytes of a message.
const LEN: usize = 64;

/// Messages after the fork, one of which the parent's own pages must get each.
const MESSAGES: usize = 20;

/// How a child lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Child {
    /// exit(3): whatever the libraries do at the end of a process is done.
    Exits,
    /// _exit(2).
    Vanishes,
    /// execve(2).
    Execs,
    /// Goes on until the parent has ended its QPs and closed the device.
    GoesOn,
}

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        for (name, child) in [
            ("exits", Child::Exits),
            ("vanishes", Child::Vanishes),
            ("execs", Child::Execs),
            ("goes_on", Child::GoesOn),
        ] {
            suite
                .case(format!("fork/{device}/{name}"), move || run(device, child))
                .beyond_stock("what is posted to a dead QP is lost");
        }
    }
}

impl Child {
    /// The child's life; its exit status.
    fn live(self) -> i32 {
        match self {
            Self::Exits => 0,
            // SAFETY: `_exit` touches no memory.
            Self::Vanishes => unsafe { libc::_exit(0) },
            // Returns only if there is no such program.
            Self::Execs => Command::new("true").exec().raw_os_error().unwrap_or(1),
            // SAFETY: `pause` touches no memory; the parent kills us.
            Self::GoesOn => unsafe { libc::pause() },
        }
    }
}

fn run(device: Device, child: Child) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    let memory = pair.bench.memory(2 * LEN)?;
    let roll = Roll::new();
    let (sends, recvs) = (roll.sends_of(&pair.a.qp), roll.recvs_of(&pair.b.qp));
    let cqs = [&*pair.a.send_cq, &*pair.b.recv_cq];
    let exchange = |number: usize| -> Outcome {
        let sent = message(number as u64, LEN);
        memory.write(0, &sent);
        let send = SendWr::send(&[memory.sge(0, LEN)]).signaled();
        pair.a.qp.post_send(&roll.sends(sends, 1, &send))?;
        roll.settle(&cqs)?;
        assert!(memory.read(LEN..2 * LEN) == sent, "message {number}");
        Ok(())
    };
    let post_recv = || {
        let list = roll.recvs(recvs, 1, memory.sge(LEN, LEN));
        pair.b.qp.post_recv(&list)
    };
    // The first message finds a receive of before the fork, in pages that both processes see then.
    post_recv()?;
    let process = Process::fork(|| child.live())?;
    if child != Child::GoesOn {
        let status = process.wait(PATIENCE)?;
        let is_well = status.is_some_and(|status| status.success());
        assert!(is_well, "the child: {status:?}");
    }
    for number in 0..MESSAGES {
        exchange(number)?;
        post_recv()?;
    }
    for dying in [&pair.a.qp, &pair.b.qp] {
        dying.move_to(sys::IBV_QPS_ERR)?;
    }
    let send = SendWr::send(&[memory.sge(0, LEN)]).signaled();
    pair.a.qp.post_send(&roll.sends(sends, 4, &send))?;
    roll.settle(&cqs)?;
    drop((memory, pair));
    // The device is closed here and open there: another of the same name works.
    traffic(device)?;
    process.kill();
    Ok(())
}

fn traffic(device: Device) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    let memory = pair.bench.memory(LEN)?;
    let write = SendWr::write(&[memory.sge(0, LEN)], memory.remote(0)).signaled();
    pair.a.qp.post_send(&[write])?;
    pair.a.send_cq.take_one()?.ok();
    Ok(())
}
