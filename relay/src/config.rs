//! The configuration: four layers (the built-in file, the user's file, the environment, flags) become one checked
//! [`Config`]. This is the only place that reads the environment.
//!
//! Each layer is read into paths and values that remember where they were said (`layer`, `tree`), one table
//! says what each key takes (`rules`), and faults are reported together, with file and line, and without any
//! value that may be a secret.

mod check;
mod database;
mod error;
mod layer;
mod model;
mod rules;
mod secret;
#[cfg(test)]
mod tests;
mod tree;
mod units;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path as FilePath, PathBuf};

use serde::Deserialize as _;

pub use database::{Database, DatabaseTls, TlsMode};
pub use error::{ConfigError, ConfigErrors};
pub use model::{
    Compression, Config, Http, Kafka, KafkaSasl, KafkaTls, Lease, Log, LogFormat, Relay, Retry, Source, Timestamp,
};
pub use secret::{REDACTED, Secret};
pub use tree::Origin;

use tree::{Entry, Path, Tree, Value};

/// The built-in file: default, documentation and example in one.
pub const DEFAULT_FILE: &str = include_str!("../fencepost.toml");

/// Variable that names the user's file, where no flag does.
const FILE_VARIABLE: &str = "FENCEPOST_CONFIG";

/// What the user gave besides the environment.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The file; else the one that `FENCEPOST_CONFIG` names; else none.
    pub file: Option<PathBuf>,
    /// `section.key=value`, in order.
    pub sets: Vec<String>,
}

/// The environment, read once. Its values may be secrets.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// This process's. Variables that are not Unicode are left out.
    #[allow(clippy::disallowed_methods, reason = "the home of the environment")]
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Environment(std::env::vars_os().filter_map(text).collect())
    }

    /// The operating system's user, as the login told it.
    pub fn user(&self) -> Option<String> {
        ["USER", "LOGNAME"]
            .into_iter()
            .filter_map(|name| self.get(name))
            .find(|name| !name.is_empty())
            .map(str::to_owned)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        Environment(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Names only.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// A configuration and what it was made of.
pub struct Loaded {
    /// Checked.
    pub config: Config,
    tree: Tree,
}

/// Reads and checks all layers.
///
/// # Errors
/// Every fault that was found.
pub fn load(inputs: &Inputs, env: &Environment) -> Result<Loaded, ConfigErrors> {
    let tree = layers(inputs, env)?;
    check::values(&tree)?;
    let resolved = resolve(tree.clone(), env)?;
    let config = build(&resolved)?;
    check::together(&config, &resolved)?;
    Ok(Loaded { config, tree })
}

/// Lays the layers over one another.
fn layers(inputs: &Inputs, env: &Environment) -> Result<Tree, ConfigErrors> {
    let (defaults, _) = layer::of_file(None, DEFAULT_FILE)?;
    let named = inputs.file.clone().or_else(|| env.get(FILE_VARIABLE).map(PathBuf::from));
    let (own, sources) = match &named {
        Some(file) => layer::of_file(Some(&file.display().to_string()), &read_file(file)?)?,
        None => (Vec::new(), 0),
    };
    let mut tree = Tree::default();
    tree.lay(defaults);
    repeat_source(&mut tree, sources);
    tree.lay(own);
    tree.lay(layer::of_environment(env, &tree)?);
    tree.lay(layer::of_flags(&inputs.sets, &tree)?);
    Ok(tree)
}

/// The built-in source's values for each source of the user's file.
fn repeat_source(tree: &mut Tree, sources: usize) {
    let of_first: Vec<_> = tree.entries.iter().filter(|(path, _)| path.source == Some(0)).collect();
    let copies: Vec<_> = (1..sources)
        .flat_map(|i| of_first.iter().map(move |(path, entry)| (Path::of_source(i, &path.key), (*entry).clone())))
        .collect();
    tree.lay(copies);
}

fn read_file(file: &FilePath) -> Result<String, ConfigErrors> {
    let fault = |error: std::io::Error| ConfigErrors::one(None, format!("can't read {}: {error}", file.display()));
    std::fs::read_to_string(file).map_err(fault)
}

/// Puts what files and variables hold in the place of their names.
fn resolve(mut tree: Tree, env: &Environment) -> Result<Tree, ConfigErrors> {
    let mut faults = error::Faults::default();
    let mut pairs = vec![(Path::new("kafka.sasl", "password_file"), "password")];
    for source in 0..tree.sources() {
        pairs.push((Path::of_source(source, "url_file"), "url"));
        pairs.push((Path::of_source(source, "url_env"), "url"));
        pairs.push((Path::of_source(source, "password_file"), "password"));
    }
    for (path, key) in pairs {
        let Some(Entry { value: Value::Text(name), origin }) = tree.get(&path).filter(|e| !e.value.is_unset()) else {
            continue;
        };
        let origin = origin.clone();
        match indirect(&path, name, env) {
            Ok(text) => drop(tree.entries.insert(path.sibling(key), Entry { value: Value::Text(text), origin })),
            Err(why) => faults.add(Some(&origin), format!("{path}: {why}")),
        }
    }
    faults.check()?;
    // Only the secrets go on, not where they came from.
    tree.entries.retain(|path, _| path.rule_name() != "kafka.sasl.password_file");
    Ok(tree)
}

/// What stands behind the name of a file or of a variable.
fn indirect(path: &Path, name: &str, env: &Environment) -> Result<String, String> {
    let text = if path.key.ends_with("_env") {
        env.get(name).map(str::to_owned).ok_or_else(|| format!("the environment has no variable {name}"))?
    } else {
        std::fs::read_to_string(name).map_err(|error| format!("can't read {name}: {error}"))?
    };
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() { Err(format!("{name} is empty")) } else { Ok(text.to_owned()) }
}

/// The structs, from a tree whose every value keeps its rule.
fn build(tree: &Tree) -> Result<Config, ConfigErrors> {
    let mut faults = error::Faults::default();
    let mut databases = Vec::new();
    for source in 0..tree.sources() {
        match database::of_source(tree, source) {
            Ok(database) => databases.push(database),
            Err(errors) => faults.extend(errors),
        }
    }
    faults.check()?;
    let mut plain = tree.clone();
    plain.entries.retain(|path, _| path.source.is_none() || !database::KEYS.contains(&path.key.as_str()));
    // Rules and structs are kept equal by a test, so this fails only where they are not; serde's text might quote a
    // value, hence only its first line's key.
    let mut config = Config::deserialize(plain.nested()).map_err(|error| {
        ConfigErrors::one(None, format!("the configuration's rules and structs differ: {}", error.message()))
    })?;
    if config.relay.name.is_empty() {
        config.relay.name = host_name();
    }
    for (source, database) in config.sources.iter_mut().zip(databases) {
        source.database = database;
        if source.ce_source.is_empty() {
            source.ce_source.clone_from(&source.name);
        }
    }
    Ok(config)
}

/// The file that this process was started from.
///
/// # Errors
/// Of the operating system.
pub fn own_program() -> std::io::Result<std::path::PathBuf> {
    std::env::current_exe()
}

/// The machine's name, cut to what a relay's name may be.
fn host_name() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    let legal: String = name.chars().filter(|c| rules::is_name(&c.to_string())).take(64).collect();
    if legal.is_empty() { "relay".into() } else { legal }
}

impl Loaded {
    /// What is in force, as a file, without secrets; each line says where its value came from.
    pub fn print(&self) -> String {
        let mut out = String::new();
        let mut last = None;
        for (path, entry) in &self.tree.entries {
            let section = (path.section.as_str(), path.source);
            if last != Some(section) {
                let gap = if last.is_some() { "\n" } else { "" };
                let (open, close) = if path.source.is_some() { ("[[", "]]") } else { ("[", "]") };
                out.push_str(&format!("{gap}{open}{}{close}\n", path.section));
                last = Some(section);
            }
            out.push_str(&format!("{} = {}  # {}\n", key(&path.key), shown(path, entry), entry.origin));
        }
        out
    }
}

fn key(key: &str) -> String {
    let bare = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { key.to_owned() } else { format!("{key:?}") }
}

fn shown(path: &Path, entry: &Entry) -> String {
    let secret = rules::rule(&path.rule_name()).is_none_or(rules::Rule::is_secret);
    match (&entry.value, secret) {
        (value, true) if !value.is_unset() => format!("\"{REDACTED}\""),
        (value, _) => value.clone().into_toml().to_string(),
    }
}
