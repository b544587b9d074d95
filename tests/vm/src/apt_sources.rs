// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Where this machine gets its Debian packages from, read from its own apt sources.
//!
//! Both formats of sources.list(5) are understood, so that a mirror, a proxy or a pinned snapshot
//! that the machine uses serves the harness too, and no address stands in this repository.

use std::fs;
use std::path::Path;

use crate::error::{Context, Error, Result};

/// One archive with the fields that say how to use it (`Signed-By`, `Trusted`, …), verbatim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) uri: String,
    pub(crate) suites: Vec<String>,
    components: Vec<String>,
    options: String,
}

/// Reads every `.list` and `.sources` file below `etc_apt`.
pub(crate) fn read(etc_apt: &Path) -> Result<Vec<Source>> {
    let mut files = vec![etc_apt.join("sources.list")];
    if let Ok(parts) = fs::read_dir(etc_apt.join("sources.list.d")) {
        files.extend(parts.flatten().map(|part| part.path()));
    }
    files.sort();
    let mut sources = Vec::new();
    for file in files.iter().filter(|file| file.exists()) {
        let extension = file.extension().and_then(|extension| extension.to_str());
        let text = || fs::read_to_string(file).context(|| file.display().to_string());
        match extension {
            Some("list") => sources.extend(classic(&text()?)),
            Some("sources") => sources.extend(deb822(&text()?)),
            _ => {}
        }
    }
    Ok(sources)
}

/// Returns what the harness reads: the machine's archives of `release`, and that release's
/// backports.
///
/// # Errors
///
/// When no source has the release itself: there is then no archive to take the backports from.
pub(crate) fn of_release(sources: &[Source], release: &str) -> Result<Vec<Source>> {
    let update = format!("{release}-");
    let mut chosen: Vec<Source> = Vec::new();
    for source in sources.iter().filter(|source| source.has_main()) {
        let ours = |suite: &&String| *suite == release || suite.starts_with(&update);
        let suites: Vec<String> = source.suites.iter().filter(ours).cloned().collect();
        if !suites.is_empty() {
            chosen.push(Source {
                suites,
                components: vec!["main".into()],
                ..source.clone()
            });
        }
    }
    let backports = format!("{release}-backports");
    if !chosen
        .iter()
        .any(|source| source.suites.contains(&backports))
    {
        let archive = archive(&chosen, release)?.clone();
        chosen.push(Source {
            suites: vec![backports],
            ..archive
        });
    }
    Ok(chosen)
}

/// Returns the source that has `release` itself, rather than its updates.
pub(crate) fn archive<'a>(sources: &'a [Source], release: &str) -> Result<&'a Source> {
    sources
        .iter()
        .find(|source| source.has_main() && source.suites.iter().any(|suite| suite == release))
        .ok_or_else(|| {
            Error::new(format!(
                "no apt source of this machine has \"{release} main\""
            ))
        })
}

impl Source {
    fn has_main(&self) -> bool {
        self.components.iter().any(|component| component == "main")
    }

    /// Writes the source as a deb822 stanza.
    pub(crate) fn stanza(&self) -> String {
        format!(
            "Types: deb\nURIs: {}\nSuites: {}\nComponents: {}\n{}\n",
            self.uri,
            self.suites.join(" "),
            self.components.join(" "),
            self.options
        )
    }
}

/// Reads the one-line format: `deb [option=value …] URI SUITE COMPONENT…`.
fn classic(text: &str) -> Vec<Source> {
    text.lines().filter_map(classic_line).collect()
}

fn classic_line(line: &str) -> Option<Source> {
    let line = line.split('#').next()?.trim();
    let mut rest = line
        .strip_prefix("deb")
        .filter(|rest| rest.starts_with([' ', '\t', '[']))?
        .trim_start();
    let mut options = String::new();
    if let Some(bracketed) = rest.strip_prefix('[') {
        let (inside, after) = bracketed.split_once(']')?;
        for (name, value) in inside
            .split_whitespace()
            .filter_map(|option| option.split_once('='))
        {
            let field = match name {
                "arch" => "Architectures",
                "lang" => "Languages",
                "target" => "Targets",
                same => same,
            };
            options.push_str(&format!("{field}: {}\n", value.replace(',', " ")));
        }
        rest = after;
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    Some(Source {
        uri: words.next()?,
        suites: vec![words.next()?],
        components: words.collect(),
        options,
    })
}

/// Reads the deb822 format: stanzas of `Field: value` with indented continuation lines.
fn deb822(text: &str) -> Vec<Source> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines
        .split(|line| line.trim().is_empty())
        .flat_map(stanza)
        .collect()
}

fn stanza(lines: &[&str]) -> Vec<Source> {
    let (mut types, mut uris, mut suites, mut components) = (vec![], vec![], vec![], vec![]);
    let mut options = String::new();
    let mut enabled = true;
    // A field is its first line and the indented ones that follow; only options may span lines
    // usefully.
    for field in lines.chunk_by(|_, next| next.starts_with([' ', '\t'])) {
        let text = field.join("\n");
        let Some((name, value)) = text.split_once(':') else {
            continue;
        };
        let words = || {
            value
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        match name.to_ascii_lowercase().as_str() {
            "types" => types = words(),
            "uris" => uris = words(),
            "suites" => suites = words(),
            "components" => components = words(),
            "enabled" => enabled = !matches!(value.trim(), "no" | "false" | "0"),
            _ => options.push_str(&format!("{text}\n")),
        }
    }
    if !enabled || !types.iter().any(|kind| kind == "deb") {
        return vec![];
    }
    let source = |uri| Source {
        uri,
        suites: suites.clone(),
        components: components.clone(),
        options: options.clone(),
    };
    uris.into_iter().map(source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "\
Types: deb deb-src
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc

Types: deb
URIs: http://mirror.example/security
Suites: bookworm-security
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://other.example/
Suites: nodistro
Components: main
";

    #[test]
    fn deb822_sources_keep_their_options() {
        let sources = of_release(&deb822(DEB822), "bookworm").unwrap();
        let uris: Vec<_> = sources.iter().map(|source| source.uri.as_str()).collect();
        let debian = "http://mirror.example/debian";
        assert_eq!(uris, [debian, "http://mirror.example/security", debian]);
        assert_eq!(
            sources[2].stanza(),
            "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm-backports\n\
             Components: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n\n"
        );
    }

    #[test]
    fn classic_sources_read_the_same() {
        let text = "# deb http://commented.example bookworm main\n\
                    deb [arch=amd64,arm64 signed-by=/k.gpg] http://m.example/debian bookworm main x # y\n\
                    deb-src http://m.example/debian bookworm main\n\
                    deb\thttp://m.example/debian\tbookworm-backports\tmain\n";
        let sources = of_release(&classic(text), "bookworm").unwrap();
        assert_eq!(sources.len(), 2, "{sources:?}");
        assert_eq!(
            sources[0].stanza(),
            "Types: deb\nURIs: http://m.example/debian\nSuites: bookworm\nComponents: main\n\
             Architectures: amd64 arm64\nsigned-by: /k.gpg\n\n"
        );
        assert_eq!(sources[1].suites, ["bookworm-backports"]);
    }

    #[test]
    fn a_machine_without_the_release_is_told_so() {
        let sources =
            deb822("Types: deb\nURIs: http://m.example\nSuites: trixie\nComponents: main\n");
        let error = of_release(&sources, "bookworm").unwrap_err().to_string();
        assert!(error.contains("bookworm main"), "{error}");
    }
}
