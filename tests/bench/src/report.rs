// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The table as people read it: Markdown, and a plot of the ratios.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

struct Row<'t> {
    group: &'t str,
    device: &'t str,
    name: &'t str,
    unit: &'t str,
    stock: Option<f64>,
    ours: Option<f64>,
}

impl Row<'_> {
    fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.stock.filter(|stock| *stock > 0.0)?)
    }
}

/// Reads the lines that the guest has printed, writes `bench.csv`, `bench.md` and `bench.svg` into `directory`,
/// and prints the table.
pub(crate) fn write(lines: &str, directory: &Path) -> io::Result<()> {
    let table: Vec<&str> = lines
        .lines()
        .filter(|line| line.split(',').count() == 6)
        .collect();
    let rows: Vec<Row<'_>> = table.iter().skip(1).filter_map(|line| row(line)).collect();
    fs::create_dir_all(directory)?;
    fs::write(directory.join("bench.csv"), table.join("\n") + "\n")?;
    let markdown = markdown(&rows);
    fs::write(directory.join("bench.md"), &markdown)?;
    fs::write(directory.join("bench.svg"), plot(&rows))?;
    print!("{markdown}");
    Ok(())
}

fn row(line: &str) -> Option<Row<'_>> {
    let [group, device, name, unit, stock, ours] =
        line.split(',').collect::<Vec<_>>().try_into().ok()?;
    Some(Row {
        group,
        device,
        name,
        unit,
        stock: stock.parse().ok(),
        ours: ours.parse().ok(),
    })
}

fn markdown(rows: &[Row<'_>]) -> String {
    let mut text = String::new();
    let mut last = "";
    for row in rows {
        if row.group != last {
            let _ = write!(
                text,
                "\n## {}\n\n| | | stock | lastwqe | ratio | |\n|---|---|---:|---:|---:|---|\n",
                row.group
            );
            last = row.group;
        }
        let figure = |figure: Option<f64>| figure.map_or("–".to_owned(), |n| format!("{n:.1}"));
        let ratio = row
            .ratio()
            .map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
        let (stock, ours) = (figure(row.stock), figure(row.ours));
        let _ = writeln!(
            text,
            "| {} | {} | {stock} | {ours} | {ratio} | {} |",
            row.device, row.name, row.unit
        );
    }
    text
}

/// A bar for each row of instructions: ours as a part of stock's, which is the line at 1.
fn plot(rows: &[Row<'_>]) -> String {
    const LINE: usize = 18;
    const LEFT: f64 = 300.0;
    const UNIT: f64 = 200.0;
    let shown: Vec<_> = rows
        .iter()
        .filter(|row| ["post and poll", "instructions"].contains(&row.group))
        .filter_map(|row| Some((row, row.ratio()?)))
        .collect();
    let height = LINE * (shown.len() + 2);
    let most = shown.iter().map(|(_, ratio)| *ratio).fold(1.5, f64::max);
    let width = LEFT + UNIT * most + 60.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"4\" y=\"14\">instructions of lastwqe for one of the stock provider</text>\n"
    );
    for (at, (row, ratio)) in shown.iter().enumerate() {
        let y = LINE * (at + 1) + 4;
        let colour = if *ratio <= 1.0 { "#4a8" } else { "#c84" };
        let _ = writeln!(
            svg,
            "<text x=\"4\" y=\"{}\">{} {}</text><rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"12\" \
             fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{}\">{ratio:.2}</text>",
            y + 11,
            row.device,
            row.name,
            UNIT * ratio,
            LEFT + UNIT * ratio + 4.0,
            y + 11,
        );
    }
    let _ = write!(
        svg,
        "<line x1=\"{0}\" x2=\"{0}\" y1=\"{LINE}\" y2=\"{height}\" stroke=\"black\"/>\n</svg>\n",
        LEFT + UNIT
    );
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_a_row_and_a_bar() {
        let rows = [row("instructions,rxe,arm,per call,200.00,100.00").unwrap()];
        assert!(markdown(&rows).contains("| rxe | arm | 200.0 | 100.0 | 0.50 | per call |"));
        assert!(plot(&rows).contains(">0.50</text>"));
        let absent = row("instructions,siw,poll_ex_16,per call,,100.00").unwrap();
        assert_eq!(absent.ratio(), None);
    }
}
