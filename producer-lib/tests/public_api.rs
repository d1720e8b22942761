//! The library's public items, pinned: a change here is a change for every service.

use std::fs;
use std::path::{Path, PathBuf};

const SNAPSHOT: &str = "tests/public_api.txt";

#[test]
fn public_items_are_the_snapshot() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join("src");
    let mut files = Vec::new();
    collect(&source, &mut files);
    files.sort();
    let text: String = files.iter().map(|file| items(&source, file)).collect();
    let expected = fs::read_to_string(root.join(SNAPSHOT)).unwrap_or_default();
    if text != expected {
        fs::write(root.join(SNAPSHOT).with_extension("txt.new"), &text).expect("the new snapshot");
        panic!("the public items differ from {SNAPSHOT}; look at public_api.txt.new and rename it if it is right");
    }
}

/// Source files below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

/// The items of one file before its tests: `pub` ones, variants and trait methods, each on one line.
fn items(root: &Path, file: &Path) -> String {
    let source = fs::read_to_string(file).expect("a source file");
    let (source, _) = source.split_once("#[cfg(test)]").unwrap_or((&source, ""));
    let mut out = format!("{}\n", file.strip_prefix(root).expect("a file below").display());
    let mut open = String::new();
    let mut scope = "";
    let mut attribute = false;
    for line in source.lines() {
        let code = line.trim();
        attribute = (attribute || code.starts_with("#[")) && !code.ends_with(']');
        if attribute {
            continue;
        }
        if !line.starts_with(' ') && !code.is_empty() {
            scope = if code.starts_with("pub enum") || code.starts_with("pub trait") { code } else { "" };
        }
        let variant =
            scope.starts_with("pub enum") && line.starts_with("    ") && !code.starts_with(['/', '#', '"', ')', '}']);
        let method = scope.starts_with("pub trait") && (line.starts_with("    fn ") || line.starts_with("    type "));
        if open.is_empty() && !(code.starts_with("pub ") || variant || method) {
            continue;
        }
        open = if open.is_empty() { format!("  {code}") } else { format!("{open} {code}") };
        if code.ends_with(['{', ';', ',', '}']) && open.matches('(').count() == open.matches(')').count() {
            out.push_str(open.trim_end_matches([' ', '{', ';', ',']));
            out.push('\n');
            open.clear();
        }
    }
    out
}
