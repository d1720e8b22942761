//! The files of the project, as the other tests of this folder look at them.

use std::fs;
use std::path::Path;

use fencepost_integration::env::project_root;

/// Folders that hold source code, from the root.
const ROOTS: [&str; 8] = ["core", "producer-lib", "consumer-lib", "relay", "migrations", "tests", "benches", "demo"];

/// A file: its path from the root with forward slashes, and its text.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) text: String,
}

impl Source {
    /// Lines without what stands behind `//`, with their numbers from 1.
    pub(super) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().map(|line| line.split("//").next().unwrap_or_default());
        lines.enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Whether the path starts with one of these.
    pub(super) fn lies_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
    }
}

/// All files whose names end so (".rs"), in the order of their paths.
pub(super) fn all(ending: &str) -> Vec<Source> {
    let mut found = Vec::new();
    for root in ROOTS {
        collect(&project_root().join(root), ending, &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "no file ends in {ending}: the test looks in the wrong place");
    found
}

/// Text of one file, by its path from the root.
pub(super) fn read(path: &str) -> String {
    fs::read_to_string(project_root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Fails with all complaints, one a line.
pub(super) fn none(complaints: &[String], rule: &str) {
    assert!(complaints.is_empty(), "{rule}:\n{}", complaints.join("\n"));
}

fn collect(folder: &Path, ending: &str, found: &mut Vec<Source>) {
    // a crate of a later issue
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("a folder can be listed").path();
        if path.is_dir() {
            collect(&path, ending, found);
        } else if path.to_string_lossy().ends_with(ending) {
            let text = fs::read_to_string(&path).expect("source code is text");
            let path = path.strip_prefix(project_root()).expect("below the root").to_string_lossy().replace('\\', "/");
            found.push(Source { path, text });
        }
    }
}
