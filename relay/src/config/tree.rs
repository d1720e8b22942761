//! Settings as a flat map from path to value, each with the place where it was said. All layers meet here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Where a value was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the built-in file.
    Default,
    /// In a file of the user's.
    File {
        /// Its name as given.
        name: Arc<str>,
        /// From 1.
        line: usize,
    },
    /// In this environment variable.
    Env(String),
    /// By `--set`.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { name, line } => write!(f, "{name}:{line}"),
            Origin::Env(name) => f.write_str(name),
            Origin::Flag => f.write_str("--set"),
        }
    }
}

/// A setting's place: section, number of the source in `[[source]]`, key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path {
    pub(super) section: String,
    pub(super) source: Option<usize>,
    pub(super) key: String,
}

impl Path {
    pub(super) fn new(section: &str, key: &str) -> Self {
        Path { section: section.into(), source: None, key: key.into() }
    }

    pub(super) fn of_source(source: usize, key: &str) -> Self {
        Path { section: SOURCE.into(), source: Some(source), key: key.into() }
    }

    /// The same key of the same section.
    pub(super) fn sibling(&self, key: &str) -> Self {
        Path { key: key.into(), ..self.clone() }
    }

    /// What the rules call it: the same for every source and every librdkafka property.
    pub(super) fn rule_name(&self) -> String {
        if self.section == PROPERTIES {
            return format!("{PROPERTIES}.*");
        }
        if self.section.is_empty() { self.key.clone() } else { format!("{}.{}", self.section, self.key) }
    }
}

/// The section that may stand several times.
pub(super) const SOURCE: &str = "source";
/// The section whose keys are librdkafka's.
pub(super) const PROPERTIES: &str = "kafka.properties";

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.section.is_empty() {
            write!(f, "{}.", self.section)?;
        }
        if let Some(source) = self.source {
            write!(f, "{source}.")?;
        }
        f.write_str(&self.key)
    }
}

/// A value before its meaning is known.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Int(i64),
    Bool(bool),
    List(Vec<String>),
}

impl Value {
    pub(super) fn is_unset(&self) -> bool {
        matches!(self, Value::Text(text) if text.is_empty())
    }

    pub(super) fn into_toml(self) -> toml::Value {
        match self {
            Value::Text(text) => toml::Value::String(text),
            Value::Int(number) => toml::Value::Integer(number),
            Value::Bool(yes) => toml::Value::Boolean(yes),
            Value::List(items) => toml::Value::Array(items.into_iter().map(toml::Value::String).collect()),
        }
    }
}

/// A value and where it was said.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Settings by path.
#[derive(Clone, Default)]
pub(super) struct Tree {
    pub(super) entries: BTreeMap<Path, Entry>,
}

/// Groups of keys of which one at most may be set; a higher layer that sets one unsets the others.
const EXCLUSIVE: [&[&str]; 3] = [
    &["source.url", "source.url_file", "source.url_env"],
    &["source.password", "source.password_file"],
    &["kafka.sasl.password", "kafka.sasl.password_file"],
];

/// The other keys of a path's group.
pub(super) fn rivals(path: &Path) -> impl Iterator<Item = Path> + '_ {
    let name = path.rule_name();
    let group = EXCLUSIVE.into_iter().find(|group| group.contains(&name.as_str())).unwrap_or_default();
    let prefix = path.section.len() + 1;
    group.iter().filter(move |other| **other != name).map(move |other| path.sibling(&other[prefix..]))
}

impl Tree {
    pub(super) fn get(&self, path: &Path) -> Option<&Entry> {
        self.entries.get(path)
    }

    pub(super) fn origin(&self, path: &Path) -> Option<&Origin> {
        self.get(path).map(|entry| &entry.origin)
    }

    /// The text at `path`, if it is set.
    pub(super) fn text(&self, path: &Path) -> Option<&str> {
        match self.get(path) {
            Some(Entry { value: Value::Text(text), .. }) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Number of sources.
    pub(super) fn sources(&self) -> usize {
        self.entries.keys().filter_map(|path| path.source).max().map_or(0, |last| last + 1)
    }

    /// Lays a layer over what is there.
    pub(super) fn lay(&mut self, layer: Vec<(Path, Entry)>) {
        for (path, entry) in &layer {
            if entry.value.is_unset() {
                continue;
            }
            for rival in rivals(path) {
                if let Some(below) = self.entries.get_mut(&rival) {
                    below.value = Value::Text(String::new());
                }
            }
        }
        self.entries.extend(layer);
    }

    /// The nested form that the structs are read from.
    pub(super) fn nested(&self) -> toml::Table {
        let mut root = toml::Table::new();
        let mut sources = vec![toml::Table::new(); self.sources()];
        for (path, entry) in &self.entries {
            let table = match path.source {
                Some(source) => &mut sources[source],
                None => section(&mut root, &path.section),
            };
            table.insert(path.key.clone(), entry.value.clone().into_toml());
        }
        section(&mut root, PROPERTIES);
        let sources = sources.into_iter().map(toml::Value::Table).collect();
        root.insert(SOURCE.into(), toml::Value::Array(sources));
        root
    }
}

/// The table of a dotted section name, made where it is missing.
fn section<'a>(root: &'a mut toml::Table, name: &str) -> &'a mut toml::Table {
    let mut table = root;
    for part in name.split('.').filter(|part| !part.is_empty()) {
        let next = table.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        table = match next {
            toml::Value::Table(next) => next,
            // Rules name no key that is also a section.
            _ => unreachable!("a section named like a key"),
        };
    }
    table
}
