// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Test plans: text files that list jobs, one a line.
//!
//! ```text
//! # name     kind    kernels   providers  userlands  deadline  command
//! devinfo    parity  6.1,6.12  *          *          60        ibv_devinfo
//! ```
//!
//! A list has commas, `*` is all there are; the deadline is in seconds; the command, the rest of
//! the line, is run by bash at the top of the checkout. Empty lines and those that start with `#`
//! say nothing.

use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Context, Error, Result};
use crate::kernel::Series;
use crate::provider::Provider;
use crate::userland::Userland;

/// What a job's cases are held to on the project's provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Each must be ok; stock is run for comparison.
    Must,
    /// Each that is ok on stock must be ok.
    Parity,
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Must => "must",
            Self::Parity => "parity",
        })
    }
}

/// One line of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) kernels: Vec<Series>,
    pub(crate) providers: Vec<Provider>,
    pub(crate) userlands: Vec<Userland>,
    pub(crate) deadline: Duration,
    pub(crate) command: String,
}

/// Reads plans, in order, into one list of jobs.
pub(crate) fn read(plans: &[PathBuf]) -> Result<Vec<Job>> {
    let mut jobs: Vec<Job> = Vec::new();
    for plan in plans {
        let text = fs::read_to_string(plan).context(|| plan.display().to_string())?;
        parse(&text, plan, &mut jobs)?;
    }
    Ok(jobs)
}

fn parse(text: &str, plan: &Path, jobs: &mut Vec<Job>) -> Result<()> {
    for (number, line) in (1_u32..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let job = line
            .parse::<Job>()
            .context(|| format!("{}:{number}", plan.display()))?;
        if jobs.iter().any(|other| other.name == job.name) {
            let place = plan.display();
            return Err(Error::new(format!(
                "{place}:{number}: there is a job {} already",
                job.name
            )));
        }
        jobs.push(job);
    }
    Ok(())
}

impl FromStr for Job {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self> {
        let mut rest = line;
        let mut column = |what: &str| {
            let (word, after) = rest.split_once(char::is_whitespace).ok_or_else(|| {
                Error::new(format!("nothing after {what}: a job has seven columns"))
            })?;
            rest = after.trim_start();
            Ok::<_, Error>(word)
        };
        let name = column("the name")?.to_owned();
        // It becomes the name of a file.
        if !name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        {
            return Err(Error::new(format!("a job cannot be named \"{name}\"")));
        }
        let kind = match column("the kind")? {
            "must" => Kind::Must,
            "parity" => Kind::Parity,
            other => {
                return Err(Error::new(format!(
                    "no kind \"{other}\": there are must and parity"
                )));
            }
        };
        let kernels = list(column("the kernels")?, &Series::ALL)?;
        let providers = list(column("the providers")?, &Provider::ALL)?;
        let userlands = list(column("the userlands")?, &Userland::ALL)?;
        let seconds = column("the deadline")?
            .parse()
            .context(|| "the deadline".into())?;
        if kind == Kind::Parity && providers.len() < Provider::ALL.len() {
            return Err(Error::new("parity takes both providers"));
        }
        let deadline = Duration::from_secs(seconds);
        Ok(Self {
            name,
            kind,
            kernels,
            providers,
            userlands,
            deadline,
            command: rest.to_owned(),
        })
    }
}

/// Reads `a,b` or `*`; the result is in the order of `all`, each once.
fn list<T: FromStr<Err = Error> + Copy + PartialEq>(text: &str, all: &[T]) -> Result<Vec<T>> {
    if text == "*" {
        return Ok(all.to_vec());
    }
    let named: Vec<T> = text.split(',').map(str::parse).collect::<Result<_>>()?;
    Ok(all
        .iter()
        .copied()
        .filter(|item| named.contains(item))
        .collect())
}

/// Whether `name` matches `glob`, in which `*` stands for any characters and `?` for one.
pub(crate) fn matches(glob: &str, name: &str) -> bool {
    match (glob.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some('*'), head) => {
            matches(rest(glob), name) || head.is_some_and(|_| matches(glob, rest(name)))
        }
        (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {
            matches(rest(glob), rest(name))
        }
        _ => false,
    }
}

fn rest(text: &str) -> &str {
    let mut chars = text.chars();
    chars.next();
    chars.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        parse(text, Path::new("p.plan"), &mut jobs).map(|()| jobs)
    }

    #[test]
    fn a_line_is_a_job() {
        let jobs = plan("# head\n\n  flush  must 6.12,6.1  lastwqe  sid  90  a | b  'c  d' # e\n")
            .unwrap();
        let [job] = jobs.as_slice() else {
            panic!("{jobs:?}")
        };
        assert_eq!(job.name, "flush");
        assert_eq!(job.kind, Kind::Must);
        assert_eq!(job.kernels, Series::ALL);
        assert_eq!(job.providers, [Provider::Lastwqe]);
        assert_eq!(job.userlands, [Userland::Sid]);
        assert_eq!(job.deadline, Duration::from_secs(90));
        assert_eq!(job.command, "a | b  'c  d' # e");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (line, said) in [
            ("x must * * *", "p.plan:2: nothing after the userlands"),
            ("x must * * * 60", "nothing after the deadline"),
            ("x may * * * 60 true", "no kind \"may\""),
            ("x must 5.10 * * 60 true", "no kernel \"5.10\""),
            ("x must * * * soon true", "the deadline"),
            ("x parity * lastwqe * 60 true", "both providers"),
            ("x/y must * * * 60 true", "cannot be named"),
            ("y must * * * 60 true", "there is a job y already"),
        ] {
            let error = plan(&format!("y must * * * 60 true\n{line}\n"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
    }

    #[test]
    fn globs_match_whole_names() {
        for (glob, name, expected) in [
            ("*", "", true),
            ("flush*", "flush-siw", true),
            ("*-siw", "flush-siw", true),
            ("f?ush", "flush", true),
            ("flush", "flush-siw", false),
            ("*x*", "flush", false),
        ] {
            assert_eq!(matches(glob, name), expected, "{glob} {name}");
        }
    }
}
