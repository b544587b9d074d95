// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What callgrind writes: for each function, the calls that it makes and what they cost.
//!
//! <https://valgrind.org/docs/manual/cl-format.html>; the only event is `Ir`, instructions.

use std::collections::BTreeMap;

/// What a function's callees cost altogether, the functions that they call included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Instructions.
    pub(crate) instructions: u64,
    /// Calls.
    pub(crate) calls: u64,
}

/// The costs of the callees of each function whose name begins with `prefix`, by the rest of its name.
#[must_use]
pub(crate) fn callees(profile: &str, prefix: &str) -> BTreeMap<String, Cost> {
    let mut names = BTreeMap::new();
    let mut costs: BTreeMap<String, Cost> = BTreeMap::new();
    let mut caller = None;
    let mut lines = profile.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("fn=") {
            let name = named(&mut names, name);
            caller = name.strip_prefix(prefix).map(str::to_owned);
        } else if let Some(callee) = line.strip_prefix("cfn=") {
            named(&mut names, callee);
        } else if let Some(calls) = line.strip_prefix("calls=") {
            // The next line has where the call stands, and what it cost.
            let cost = lines.next().and_then(|line| line.split(' ').next_back());
            if let Some(caller) = &caller {
                let count = calls.split(' ').next().and_then(|n| n.parse::<u64>().ok());
                let sum = costs.entry(caller.clone()).or_default();
                sum.calls += count.unwrap_or(0);
                sum.instructions += cost.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
            }
        }
    }
    costs
}

/// Resolves `(7) name`, which gives number 7 that name, or `(7)`, which refers to it.
fn named(names: &mut BTreeMap<String, String>, text: &str) -> String {
    let Some((number, name)) = text.split_once(')') else {
        return text.to_owned();
    };
    let name = name.trim();
    if name.is_empty() {
        return names.get(number).cloned().unwrap_or_default();
    }
    names.insert(number.to_owned(), name.to_owned());
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_the_functions_that_are_meant_are_added_up() {
        let profile = "\
events: Ir
fn=(1) measured_arm
0 5
cob=(2)
cfn=(2) req_notify
calls=3 0
0 720
fn=(3) other
cfn=(2)
calls=9 0
0 9
fn=(1)
cfn=(4) write
calls=1 0
+2 40
";
        let costs = callees(profile, "measured_");
        let arm = Cost {
            instructions: 760,
            calls: 4,
        };
        assert_eq!(costs, BTreeMap::from([("arm".to_owned(), arm)]));
    }
}
