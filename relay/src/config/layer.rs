//! Reads each layer - a file, the environment, flags - into paths and values, and refuses what no rule
//! knows, with the key that was probably meant.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Faults;
use super::rules::{RULES, nearest, rule};
use super::tree::{Entry, Origin, PROPERTIES, Path, SOURCE, Tree, Value};
use super::{ConfigErrors, Environment};

/// What a layer says.
pub(super) type Layer = Vec<(Path, Entry)>;

/// Reads a file. `name` is `None` for the built-in one. Returns how many `[[source]]` it has besides.
pub(super) fn of_file(name: Option<&str>, text: &str) -> Result<(Layer, usize), ConfigErrors> {
    let file = FileReader { name: name.map(Arc::from), text, layer: Vec::new(), faults: Faults::default(), sources: 0 };
    let table = DeTable::parse(text).map_err(|error| {
        // Not the error's own display: that quotes the line, which may hold a password.
        let at = error.span().map_or(0, |span| span.start);
        ConfigErrors::one(Some(file.origin(at)), format!("not TOML: {}", error.message().replace('\n', ", ")))
    })?;
    file.read(table.get_ref())
}

struct FileReader<'a> {
    name: Option<Arc<str>>,
    text: &'a str,
    layer: Layer,
    faults: Faults,
    sources: usize,
}

impl FileReader<'_> {
    fn origin(&self, at: usize) -> Origin {
        let line = 1 + self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|b| **b == b'\n').count();
        self.name.as_ref().map_or(Origin::Default, |name| Origin::File { name: name.clone(), line })
    }

    fn read(mut self, table: &DeTable<'_>) -> Result<(Layer, usize), ConfigErrors> {
        self.table("", None, table);
        self.faults.check()?;
        Ok((self.layer, self.sources))
    }

    fn table(&mut self, section: &str, source: Option<usize>, table: &DeTable<'_>) {
        for (key, value) in table {
            let at = key.span().start;
            let name =
                if section.is_empty() { key.get_ref().to_string() } else { format!("{section}.{}", key.get_ref()) };
            match value.get_ref() {
                DeValue::Table(inner) if section == PROPERTIES || name.starts_with("kafka.properties.") => {
                    self.property(key.get_ref(), inner);
                }
                DeValue::Table(_) if name == SOURCE => {
                    self.faults.add(Some(&self.origin(at)), "write [[source]], with two brackets on each side");
                }
                DeValue::Table(inner) if is_section(&name) => self.table(&name, source, inner),
                DeValue::Array(items) if name == SOURCE => self.all_sources(at, items),
                _ => {
                    let path = Path { section: section.into(), source, key: key.get_ref().to_string() };
                    self.leaf(path, at, value);
                }
            }
        }
    }

    fn all_sources(&mut self, at: usize, items: &[Spanned<DeValue<'_>>]) {
        for item in items {
            match item.get_ref() {
                DeValue::Table(inner) => self.table(SOURCE, Some(self.sources), inner),
                _ => self.faults.add(Some(&self.origin(at)), "source is a section: [[source]]"),
            }
            self.sources += 1;
        }
    }

    /// `socket.timeout.ms = ...` without quotes is nested tables to TOML, and one name to librdkafka.
    fn property(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = format!("{prefix}.{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) => self.property(&name, inner),
                _ => self.leaf(Path::new(PROPERTIES, &name), key.span().start, value),
            }
        }
    }

    fn leaf(&mut self, path: Path, at: usize, value: &Spanned<DeValue<'_>>) {
        let origin = self.origin(at);
        let name = path.rule_name();
        let Some(rule) = rule(&name) else {
            return self.faults.add(Some(&origin), unknown(&path, &name));
        };
        match value_of(value.get_ref()) {
            Some(value) => self.layer.push((path, Entry { value, origin })),
            None => self.faults.add(Some(&origin), format!("{path} must be {rule}")),
        }
    }
}

fn value_of(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(Value::Text(text.to_string())),
        DeValue::Integer(number) => {
            i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok().map(Value::Int)
        }
        DeValue::Boolean(yes) => Some(Value::Bool(*yes)),
        DeValue::Array(items) => {
            items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect::<Option<_>>().map(Value::List)
        }
        // A float is only ever a property's value (linger.ms), and a text there.
        DeValue::Float(number) => Some(Value::Text(number.as_str().to_owned())),
        DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

fn is_section(name: &str) -> bool {
    let inside = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    RULES.iter().any(|(key, _)| inside(key))
}

fn unknown(path: &Path, name: &str) -> String {
    if is_section(name) {
        return format!("{path} is a section: [{name}]");
    }
    match nearest(name) {
        Some(meant) => format!("unknown key {path}; did you mean {meant}?"),
        None => format!("unknown key {path}; `fencepost config --default` prints all keys"),
    }
}

/// Prefix of the environment variables that are settings.
const PREFIX: &str = "FENCEPOST__";

/// Reads the environment. `below` knows the sources, which a variable may only name, not make.
pub(super) fn of_environment(env: &Environment, below: &Tree) -> Result<Layer, ConfigErrors> {
    let mut faults = Faults::default();
    let mut layer = Layer::new();
    for (name, text) in env.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        let parts = name[PREFIX.len()..].split("__").map(str::to_ascii_lowercase).collect();
        let origin = Origin::Env(name.to_owned());
        match place(parts, below, true) {
            Ok(path) => text_layer(path, text, origin, &mut layer, &mut faults),
            Err(why) => faults.add(Some(&origin), why),
        }
    }
    faults.check()?;
    Ok(layer)
}

/// Reads `--set key=value` flags.
pub(super) fn of_flags(sets: &[String], below: &Tree) -> Result<Layer, ConfigErrors> {
    let mut faults = Faults::default();
    let mut layer = Layer::new();
    for set in sets {
        // Not quoted: it may hold a secret.
        let Some((key, text)) = set.split_once('=') else {
            faults.add(Some(&Origin::Flag), "not of the form section.key=value");
            continue;
        };
        match place(key.trim().split('.').map(str::to_owned).collect(), below, false) {
            Ok(path) if rule(&path.rule_name()).is_some_and(|rule| matches!(rule, super::rules::Rule::Secret)) => {
                faults.add(
                    Some(&Origin::Flag),
                    format!("{path} may hold a secret, and a command line is visible to everybody: use a file or the environment"),
                );
            }
            Ok(path) => text_layer(path, text, Origin::Flag, &mut layer, &mut faults),
            Err(why) => faults.add(Some(&Origin::Flag), why),
        }
    }
    faults.check()?;
    Ok(layer)
}

fn text_layer(path: Path, text: &str, origin: Origin, layer: &mut Layer, faults: &mut Faults) {
    let name = path.rule_name();
    match rule(&name) {
        Some(rule) => layer.push((path, Entry { value: rule.read(text), origin })),
        None => faults.add(Some(&origin), unknown(&path, &name)),
    }
}

/// The path that a dotted name means.
fn place(mut parts: Vec<String>, below: &Tree, from_environment: bool) -> Result<Path, String> {
    if parts.first().is_some_and(|first| first == SOURCE) && parts.len() > 1 {
        let source = source_index(&parts[1], below)?;
        return Ok(Path::of_source(source, &parts[2..].join(".")));
    }
    if parts.len() > 2 && parts[0] == "kafka" && parts[1] == "properties" {
        let name = parts[2..].join(".");
        // No variable's name can have a dot, and no property's name has an underscore.
        return Ok(Path::new(PROPERTIES, &if from_environment { name.replace('_', ".") } else { name }));
    }
    let key = parts.pop().unwrap_or_default();
    Ok(Path::new(&parts.join("."), &key))
}

fn source_index(name: &str, below: &Tree) -> Result<usize, String> {
    let count = below.sources();
    let same =
        |wanted: &str| wanted.eq_ignore_ascii_case(name) || wanted.replace(['-', '.'], "_").eq_ignore_ascii_case(name);
    let named = |i: &usize| below.text(&Path::of_source(*i, "name")).is_some_and(same);
    let by_name = (0..count).find(named);
    by_name.or_else(|| name.parse().ok().filter(|i| *i < count)).ok_or_else(|| {
        let names: Vec<_> = (0..count).filter_map(|i| below.text(&Path::of_source(i, "name"))).collect();
        format!("no source {name:?}; there are {}, numbered from 0", names.join(", "))
    })
}
