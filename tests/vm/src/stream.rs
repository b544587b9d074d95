// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Splits the result stream of a guest into what jobs print and what the agent says about them.
//!
//! An agent's line, a frame, starts with a byte that text does not use and a number that jobs do
//! not know; so nothing that a job prints can pass for one, and a frame may follow an unfinished
//! line.

use std::str::FromStr;

/// A piece of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Bytes as they were written; pieces end anywhere.
    Output(Vec<u8>),
    Frame(Frame),
}

/// What the agent says; see `guest/agent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The guest is up and its boot messages are complete.
    Ready,
    Begin(usize),
    /// The job ended by itself, with this exit status.
    Exited(usize, i32),
    /// The job was killed at its deadline.
    Late(usize),
    /// The job was killed at its deadline but does not die.
    Stuck(usize),
    /// The kernel's messages and the cleaning up after a job are complete.
    Done(usize, Left),
}

/// What a job left of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Clean,
    /// The job's links cannot be removed: the next job needs another guest.
    Dirty,
}

/// The splitter; keeps the bytes that may still turn out to be a frame.
#[derive(Debug)]
pub(crate) struct Stream {
    mark: Vec<u8>,
    held: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(nonce: &str) -> Self {
        Self {
            mark: format!("\x1e{nonce} ").into_bytes(),
            held: Vec::new(),
        }
    }

    /// Takes the next bytes of the stream and returns the pieces that are complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.held.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        while let Some(start) = position(&self.held, &self.mark) {
            self.output(start, &mut pieces);
            let Some(end) = self.held.iter().position(|byte| *byte == b'\n') else {
                return pieces;
            };
            let line: Vec<u8> = self.held.drain(..=end).skip(self.mark.len()).collect();
            let line = String::from_utf8_lossy(&line);
            // Only another version of the agent could say something else.
            pieces.extend(line.trim_end().parse().map(Piece::Frame));
        }
        let begun = (0..self.mark.len()).rev().find(|length| {
            self.mark
                .get(..*length)
                .is_some_and(|begin| self.held.ends_with(begin))
        });
        self.output(
            self.held.len().saturating_sub(begun.unwrap_or(0)),
            &mut pieces,
        );
        pieces
    }

    fn output(&mut self, length: usize, pieces: &mut Vec<Piece>) {
        if length > 0 {
            pieces.push(Piece::Output(self.held.drain(..length).collect()));
        }
    }
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

impl FromStr for Frame {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.split(' ').collect();
        let id = |word: &str| word.parse().map_err(drop);
        match *words.as_slice() {
            ["ready"] => Ok(Self::Ready),
            ["begin", job] => Ok(Self::Begin(id(job)?)),
            ["end", job, "late"] => Ok(Self::Late(id(job)?)),
            ["end", job, status] => Ok(Self::Exited(id(job)?, status.parse().map_err(drop)?)),
            ["stuck", job] => Ok(Self::Stuck(id(job)?)),
            ["done", job, "clean"] => Ok(Self::Done(id(job)?, Left::Clean)),
            ["done", job, "dirty"] => Ok(Self::Done(id(job)?, Left::Dirty)),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
        let mut joined: Vec<Piece> = Vec::new();
        for piece in pieces {
            match (joined.last_mut(), piece) {
                (Some(Piece::Output(before)), Piece::Output(more)) => before.extend(more),
                (_, piece) => joined.push(piece),
            }
        }
        joined
    }

    const STREAM: &[u8] = b"\x1e77 ready\n\x1e77 begin 3\nok a\nunfinished \x1e7\
        \x1e77 end 3 1\nBUG: x\n\x1e77 done 3 dirty\n";

    fn expected() -> Vec<Piece> {
        vec![
            Piece::Frame(Frame::Ready),
            Piece::Frame(Frame::Begin(3)),
            Piece::Output(b"ok a\nunfinished \x1e7".to_vec()),
            Piece::Frame(Frame::Exited(3, 1)),
            Piece::Output(b"BUG: x\n".to_vec()),
            Piece::Frame(Frame::Done(3, Left::Dirty)),
        ]
    }

    #[test]
    fn pieces_do_not_depend_on_how_the_bytes_arrive() {
        for size in 1..STREAM.len() {
            let mut stream = Stream::new("77");
            let pieces = STREAM
                .chunks(size)
                .flat_map(|chunk| stream.feed(chunk))
                .collect();
            assert_eq!(joined(pieces), expected(), "in chunks of {size}");
        }
    }

    #[test]
    fn output_is_not_held_back() {
        let mut stream = Stream::new("77");
        assert_eq!(
            stream.feed(b"no newline"),
            [Piece::Output(b"no newline".to_vec())]
        );
        assert_eq!(stream.feed(b"\x1e7"), []);
        assert_eq!(stream.feed(b"8"), [Piece::Output(b"\x1e78".to_vec())]);
    }

    #[test]
    fn a_job_cannot_end_itself() {
        let mut stream = Stream::new("77");
        let forged = b"\x1e12 end 3 0\n";
        assert_eq!(stream.feed(forged), [Piece::Output(forged.to_vec())]);
    }
}
