//! How a verb ends: what it wrote, its exit code, and its error with a hint.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;

use crate::config::ConfigErrors;
use crate::store::StoreError;

/// Exit codes, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// It was refused, a check found something, or it failed.
    Failed = 1,
    /// Wrong arguments or configuration.
    Usage = 2,
    /// A server can't be reached: the same may succeed later.
    Unreachable = 3,
    /// A source must be repaired first.
    Unfit = 4,
}

/// Why a verb failed. The text says what to do and has no secret in it.
#[derive(Debug)]
pub struct CliError {
    /// What kind.
    pub exit: Exit,
    /// What happened.
    pub text: String,
}

impl CliError {
    /// Of a kind.
    pub fn new(exit: Exit, text: impl Into<String>) -> Self {
        CliError { exit, text: text.into() }
    }

    /// The same, of a source.
    #[must_use]
    pub fn of_source(self, source: &str) -> Self {
        CliError { text: format!("source {source}: {}", self.text), ..self }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<ConfigErrors> for CliError {
    fn from(errors: ConfigErrors) -> Self {
        CliError::new(Exit::Usage, errors.to_string())
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let exit = match &error {
            StoreError::Lost(_) => Exit::Unreachable,
            StoreError::Refused(_) => Exit::Failed,
            StoreError::Unfit { .. } => Exit::Unfit,
        };
        CliError::new(exit, error.to_string())
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        CliError::new(Exit::Failed, format!("the output can't be written: {error}"))
    }
}

/// Where a verb writes.
pub struct Output<'a> {
    /// Data, for scripts and pipes.
    pub data: &'a mut dyn Write,
    /// Everything else.
    pub notes: &'a mut dyn Write,
}

impl Output<'_> {
    /// One line of data.
    ///
    /// # Errors
    /// Of the stream.
    pub fn line(&mut self, text: impl fmt::Display) -> Result<(), CliError> {
        Ok(writeln!(self.data, "{text}")?)
    }

    /// One line beside the data.
    ///
    /// # Errors
    /// Of the stream.
    pub fn note(&mut self, text: impl fmt::Display) -> Result<(), CliError> {
        Ok(writeln!(self.notes, "{text}")?)
    }

    /// A value as indented JSON.
    ///
    /// # Errors
    /// Of the stream.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let text =
            serde_json::to_string_pretty(value).map_err(|error| CliError::new(Exit::Failed, error.to_string()))?;
        self.line(text)
    }

    /// Rows under a heading, in columns.
    ///
    /// # Errors
    /// Of the stream.
    pub fn table<const N: usize>(&mut self, heading: [&str; N], rows: &[[String; N]]) -> Result<(), CliError> {
        let heading = heading.map(str::to_owned);
        let width = |i: usize| rows.iter().chain([&heading]).map(|row| row[i].chars().count()).max().unwrap_or(0);
        for row in [&heading].into_iter().chain(rows) {
            let cells: Vec<_> = row.iter().enumerate().map(|(i, cell)| format!("{cell:<0$}", width(i))).collect();
            self.line(cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let (mut data, mut notes) = (Vec::new(), Vec::new());
        let mut out = Output { data: &mut data, notes: &mut notes };
        out.table(["a", "name"], &[["10".into(), "x".into()], ["7".into(), String::new()]]).expect("memory");
        out.note("beside").expect("memory");
        assert_eq!(String::from_utf8(data).expect("text"), "a   name\n10  x\n7\n");
        assert_eq!(String::from_utf8(notes).expect("text"), "beside\n");
    }
}
