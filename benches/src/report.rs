//! What a measurement says: a table for people, JSON for scripts, and each figure beside its goal.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::host::Machine;

/// One value of a run.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    name: &'static str,
    value: f64,
    decimals: usize,
}

impl Cell {
    /// `name` carries the unit.
    pub(crate) fn new(name: &'static str, value: f64, decimals: usize) -> Self {
        Cell { name, value, decimals }
    }

    pub(crate) fn count(name: &'static str, value: u64) -> Self {
        Cell::new(name, value as f64, 0)
    }

    /// The median of cells of one column.
    pub(crate) fn median<'a>(cells: impl Iterator<Item = &'a Cell> + Clone) -> Self {
        let (name, decimals) = cells.clone().next().map_or(("", 0), |cell| (cell.name, cell.decimals));
        Cell::new(name, median(cells.map(|cell| cell.value)), decimals)
    }
}

/// One measured run; all runs of a report have the same cells.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) label: String,
    pub(crate) cells: Vec<Cell>,
}

/// What a figure has to be.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// A figure and its goal.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    name: String,
    unit: &'static str,
    value: f64,
    goal: Goal,
    met: bool,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, value: f64, goal: Goal) -> Self {
        let met = match goal {
            Goal::AtLeast(bound) => value >= bound,
            Goal::AtMost(bound) => value <= bound,
        };
        Figure { name: name.into(), unit, value, goal, met }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, bound) = match self.goal {
            Goal::AtLeast(bound) => ("at least", bound),
            Goal::AtMost(bound) => ("at most", bound),
        };
        let verdict = if self.met { "met   " } else { "missed" };
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        write!(f, "{verdict}  {}: {}{unit} ({word} {bound})", self.name, digits(self.value))
    }
}

/// Three significant digits, whole numbers from 100 on.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Everything that one scenario found.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) scenario: &'static str,
    pub(crate) machine: Machine,
    pub(crate) settings: Value,
    pub(crate) runs: Vec<Run>,
    pub(crate) figures: Vec<Figure>,
    /// Whether every verifying reader was content.
    pub(crate) faithful: bool,
}

impl Report {
    /// Whether all figures reached their goals.
    pub(crate) fn all_met(&self) -> bool {
        self.figures.iter().all(|figure| figure.met)
    }

    pub(crate) fn json(&self) -> Value {
        let run = |run: &Run| {
            let mut object = Map::from_iter([("label".to_owned(), json!(run.label))]);
            object.extend(run.cells.iter().map(|cell| (cell.name.to_owned(), json!(cell.value))));
            Value::Object(object)
        };
        json!({
            "scenario": self.scenario,
            "machine": self.machine,
            "settings": self.settings,
            "runs": self.runs.iter().map(run).collect::<Vec<_>>(),
            "figures": self.figures,
            "faithful": self.faithful,
        })
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let Some(first) = self.runs.first() else { return Vec::new() };
        let head = std::iter::once(self.scenario.to_owned()).chain(first.cells.iter().map(|c| c.name.to_owned()));
        let row = |run: &Run| {
            let value = |cell: &Cell| format!("{:.*}", cell.decimals, cell.value);
            std::iter::once(run.label.clone()).chain(run.cells.iter().map(value)).collect()
        };
        std::iter::once(head.collect()).chain(self.runs.iter().map(row)).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\nsettings: {}\n", self.machine, self.settings)?;
        let rows = self.rows();
        let columns = rows.first().map_or(0, Vec::len);
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &rows {
            write!(f, "| {:<width$}", row[0], width = widths[0])?;
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                write!(f, " | {cell:>width$}")?;
            }
            writeln!(f, " |")?;
            if std::ptr::eq(row, &rows[0]) {
                let dashes = widths.iter().map(|width| "-".repeat(width + 2));
                writeln!(f, "|{}|", dashes.collect::<Vec<_>>().join("|"))?;
            }
        }
        writeln!(f)?;
        for figure in &self.figures {
            writeln!(f, "{figure}")?;
        }
        f.write_str(if self.faithful {
            "the verifying readers found everything, once, and in order where order is promised"
        } else {
            "NOT FAITHFUL: a verifying reader found messages lost, repeated or misordered"
        })
    }
}

/// The middle value; of an even number the mean of the two middle ones; 0 of none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median([]), 0.0);
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn a_figure_says_whether_it_met_its_goal() {
        let text = |value, goal| Figure::new("p99", "ms", value, goal).to_string();
        assert_eq!(text(9.5, Goal::AtMost(10.0)), "met     p99: 9.50 ms (at most 10)");
        assert_eq!(text(9.5, Goal::AtLeast(10.0)), "missed  p99: 9.50 ms (at least 10)");
    }
}
