//! The size budget: files of at most 600 lines, functions of at most 70.

use super::sources::{all, none};

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;

/// Functions in formatted code as (name, first line, lines): rustfmt puts the closing brace under the
/// first character of the line that opened the function.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let closing = format!("{indent}}}");
        // or, in a trait, the end of a signature without a body
        let bodiless = format!("{indent})");
        let ends = |line: &str| line == closing || (line.starts_with(&bodiless) && line.ends_with(';'));
        let one_line = line.ends_with('}') || line.ends_with(';');
        let length = match lines[start..].iter().position(|line| ends(line)) {
            Some(_) | None if one_line => 1,
            Some(length) => length + 1,
            None => lines.len() - start,
        };
        found.push((name.to_owned(), start + 1, length));
    }
    found
}

/// The name, if the line begins a function.
fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let words = ["pub", "pub(crate)", "pub(super)", "async", "const", "unsafe", "extern", "\"C\""];
    if !before.split_whitespace().all(|word| words.contains(&word)) {
        return None;
    }
    rest.split(['(', '<']).next().filter(|name| !name.is_empty())
}

#[test]
fn files_and_functions_stay_within_the_budget() {
    let mut complaints = Vec::new();
    for source in all(".rs") {
        let lines = source.text.lines().count();
        if lines > FILE_LINES {
            complaints.push(format!("{} has {lines} lines", source.path));
        }
        for (name, line, length) in functions(&source.text) {
            if length > FUNCTION_LINES {
                complaints.push(format!("{}:{line} {name} has {length} lines", source.path));
            }
        }
    }
    none(&complaints, "above the budget of 600 lines a file and 70 a function: split it");
}

#[test]
fn functions_are_measured() {
    let text = "fn one() {}\nimpl A {\n    pub(crate) async fn two(\n        a: u8,\n    ) -> u8 {\n        a\n    }\n    fn three(\n        a: u8,\n    ) -> u8;\n}\n";
    let expected = vec![("one".to_owned(), 1, 1), ("two".to_owned(), 3, 5), ("three".to_owned(), 8, 3)];
    assert_eq!(functions(text), expected);
}
