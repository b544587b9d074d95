// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A thread that sleeps until a completion event wakes it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::roll::{Roll, patience};
use crate::suite::{Outcome, Stop};
use crate::verbs::{CompChannel, Cq, readable, wait_by_epoll};

/// Where the thread sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bed {
    /// In `ibv_get_cq_event`.
    GetCqEvent,
    /// In poll(2) on the channel.
    Poll,
    /// In epoll_wait(2) on the channel.
    Epoll,
}

impl Bed {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::GetCqEvent, Self::Poll, Self::Epoll];

    /// What cases call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GetCqEvent => "get_cq_event",
            Self::Poll => "poll",
            Self::Epoll => "epoll",
        }
    }
}

/// Takes the completions of some CQs to a roll, as an event-driven application does: it sleeps, and
/// when an event comes it arms the CQ again and polls it until it is empty.
///
/// The thread is never told to end. It goes with the process.
#[derive(Debug)]
pub struct Sleeper {
    roll: Arc<Roll>,
    wakes: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Habits {
    channel: Arc<CompChannel>,
    cqs: Vec<Arc<Cq>>,
    solicited_only: bool,
    bed: Bed,
}

impl Sleeper {
    /// Arms the CQs, which must be on `channel`, and polls them; then the thread begins to sleep.
    ///
    /// # Errors
    ///
    /// A failure of a verb.
    pub fn start(
        roll: &Arc<Roll>,
        channel: &Arc<CompChannel>,
        cqs: &[&Arc<Cq>],
        solicited_only: bool,
        bed: Bed,
    ) -> Result<Self, Stop> {
        let habits = Habits {
            channel: Arc::clone(channel),
            cqs: cqs.iter().map(|&cq| Arc::clone(cq)).collect(),
            solicited_only,
            bed,
        };
        for cq in cqs {
            habits.look(cq, roll)?;
        }
        let sleeper = Self {
            roll: Arc::clone(roll),
            wakes: Arc::default(),
        };
        let (roll, wakes) = (Arc::clone(roll), Arc::clone(&sleeper.wakes));
        thread::spawn(move || {
            if let Err(Stop::Fail(how)) = habits.live(&roll, &wakes) {
                panic!("the sleeper: {how}");
            }
        });
        Ok(sleeper)
    }

    /// How often the thread has been woken.
    #[must_use]
    pub fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }

    /// Waits until the thread has taken all completions that are due.
    ///
    /// # Errors
    ///
    /// That it sleeps on, or what is wrong with the completions.
    pub fn settle(&self) -> Outcome {
        let start = Instant::now();
        while self.roll.outstanding() > 0 {
            if start.elapsed() > patience() {
                let (missing, wakes) = (self.roll.outstanding(), self.wakes());
                return Err(Stop::Fail(format!(
                    "the waiter was woken {wakes} times and sleeps, with {missing} completions due"
                )));
            }
            thread::yield_now();
        }
        self.roll.check()
    }
}

impl Habits {
    fn live(&self, roll: &Roll, wakes: &AtomicUsize) -> Outcome {
        loop {
            match self.bed {
                Bed::GetCqEvent => {}
                Bed::Poll => drop(readable(self.channel.fd(), Duration::MAX)?),
                Bed::Epoll => wait_by_epoll(self.channel.fd())?,
            }
            let event = self.channel.get_event()?;
            wakes.fetch_add(1, Ordering::SeqCst);
            let woken = self.cqs.iter().find(|cq| cq.raw() == event.cq());
            let cq = woken.ok_or_else(|| io::Error::other("an event of another CQ"))?;
            self.look(cq, roll)?;
        }
    }

    /// Arms first: what comes while polling is either polled or raises an event.
    fn look(&self, cq: &Cq, roll: &Roll) -> Outcome {
        cq.arm(self.solicited_only)?;
        while roll.poll(cq)? > 0 {}
        Ok(())
    }
}
