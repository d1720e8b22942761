//! Who may name what: libraries, adapters, upper layers, SQL files, test files.

use fencepost_relay::failpoint;

use super::sources::{Source, all, none, read};

/// A name, and the places (beginnings of paths) that may use it.
struct Reserved {
    name: &'static str,
    places: &'static [&'static str],
}

/// Everywhere but in the shipped programs.
const RESERVED: [Reserved; 8] = [
    Reserved {
        name: "sqlx",
        places: &["relay/src/store/", "producer-lib/", "consumer-lib/", "demo/", "tests/", "benches/"],
    },
    Reserved { name: "rusqlite", places: &["relay/src/store/sqlite/"] },
    Reserved {
        name: "rdkafka",
        places: &["relay/src/publisher/", "consumer-lib/src/runner", "demo/", "tests/", "benches/"],
    },
    Reserved { name: "axum", places: &["relay/src/http", "demo/"] },
    Reserved {
        name: "clap",
        places: &["relay/src/cli", "relay/src/main.rs", "relay/src/wiring", "benches/", "demo/", "tests/"],
    },
    Reserved { name: "prometheus", places: &["relay/src/metrics", "relay/src/http"] },
    Reserved { name: "fastrand", places: &["relay/src/random.rs", "tests/", "benches/", "demo/"] },
    Reserved { name: "tokio_postgres", places: &["benches/baseline/"] },
];

/// Lines of code in which `name` stands as the first part of a path.
fn uses<'a>(source: &'a Source, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let boundary = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '"');
    let stands = move |line: &str| {
        line.match_indices(name).any(|(at, _)| {
            let behind = &line[at + name.len()..];
            boundary(line[..at].chars().next_back())
                && (behind.starts_with("::") || line.trim_start().starts_with("use "))
                && boundary(behind.chars().next().filter(|c| *c != ':'))
        })
    };
    source.code().filter(move |(_, line)| stands(line)).map(|(number, _)| number)
}

#[test]
fn libraries_are_named_only_in_their_places() {
    let mut complaints = Vec::new();
    for source in all(".rs") {
        for Reserved { name, places } in RESERVED {
            if !source.lies_in(places) {
                complaints.extend(uses(&source, name).map(|line| format!("{}:{line} names {name}", source.path)));
            }
        }
    }
    none(&complaints, "libraries named outside their places");
}

/// Each adapter, and who may name it besides itself and the module that declares it: the wiring.
#[test]
fn only_the_wiring_names_adapters() {
    let adapters = [
        ("store::postgres", "relay/src/store/"),
        ("store::sqlite", "relay/src/store/"),
        ("publisher::kafka", "relay/src/publisher/"),
    ];
    let mut complaints = Vec::new();
    for source in all(".rs").into_iter().filter(|source| source.path.starts_with("relay/src/")) {
        for (adapter, home) in adapters {
            if !source.lies_in(&[home, "relay/src/wiring"]) {
                let lines = source.code().filter(|(_, line)| line.contains(adapter));
                complaints.extend(lines.map(|(line, _)| format!("{}:{line} names {adapter}", source.path)));
            }
        }
    }
    none(&complaints, "adapters named outside the wiring");
}

/// The layers of the relay from the top; each may name those below it.
const LAYERS: [&[&str]; 4] = [&["cli", "http"], &["ops"], &["engine"], &["store", "publisher"]];

#[test]
fn layers_of_the_relay_know_only_what_lies_below() {
    let mut complaints = Vec::new();
    for source in all(".rs") {
        let Some(place) = source.path.strip_prefix("relay/src/") else { continue };
        let module = place.split(['/', '.']).next().expect("a first part");
        let Some(layer) = LAYERS.iter().position(|layer| layer.contains(&module)) else { continue };
        let above = LAYERS[..layer].iter().copied().flatten().chain(&["wiring"]);
        for upper in above {
            let path = format!("crate::{upper}");
            let lines = source.code().filter(|(_, line)| {
                line.match_indices(&path).any(|(at, _)| !line[at + path.len()..].starts_with(char::is_alphanumeric))
            });
            complaints.extend(lines.map(|(line, _)| format!("{}:{line} names {path}", source.path)));
        }
    }
    none(&complaints, "modules that look upwards");
}

/// Where clippy's ban on clocks, randomness, environment and sleep may be lifted.
const HOMES: [&str; 19] = [
    "relay/src/clock.rs",
    "relay/src/random.rs",
    "relay/src/config.rs",
    // its one timer
    "relay/src/engine/mod.rs",
    // a switch that releases don't have
    "relay/src/failpoint.rs",
    "tests/integration/src/env.rs",
    "tests/integration/src/random.rs",
    "tests/integration/src/wait.rs",
    // message ids are drawn where a message is built
    "producer-lib/src/message.rs",
    // measuring tools and the judge stand alone: one place each
    "tests/auditor/src/topic.rs",
    "tests/sim/src/main.rs",
    "tests/sim/src/seeds.rs",
    "benches/src/clock.rs",
    "benches/src/rig.rs",
    "benches/baseline/src/main.rs",
    "relay/examples/",
    "producer-lib/examples/",
    "demo/src/clock.rs",
    "demo/src/random.rs",
];

#[test]
fn clock_randomness_and_environment_stay_in_their_homes() {
    let ban = ["clippy", "::", "disallowed_methods"].concat();
    let strays = all(".rs").into_iter().filter(|source| source.text.contains(&ban) && !source.lies_in(&HOMES));
    let strays: Vec<_> = strays.map(|source| source.path).collect();
    none(&strays, "files that lift the ban of clippy.toml and are no home of what it bans");
}

#[test]
fn every_sql_file_is_used_and_says_why() {
    let code = all(".rs");
    let mut complaints = Vec::new();
    for sql in all(".sql") {
        let name = sql.path.rsplit('/').next().expect("a file name");
        if !code.iter().any(|source| source.text.contains(name)) {
            complaints.push(format!("{}: no .rs file names it", sql.path));
        }
        if !sql.text.starts_with("--") {
            complaints.push(format!("{}: has no comment at its top that says why it is so", sql.path));
        }
    }
    none(&complaints, "SQL files");
}

#[test]
fn every_failpoint_is_placed_in_the_relay() {
    let relay: Vec<_> = all(".rs").into_iter().filter(|source| source.path.starts_with("relay/src/")).collect();
    let mut complaints = Vec::new();
    for point in failpoint::ALL {
        let hit = format!("failpoint::hit(failpoint::{})", point.name().to_uppercase());
        if !relay.iter().any(|source| source.code().any(|(_, line)| line.contains(&hit))) {
            complaints.push(point.name().to_owned());
        }
    }
    none(&complaints, "failpoints that the relay never comes to");
}

#[test]
fn no_test_file_is_forgotten() {
    let home = "tests/integration/tests/it/";
    let main = read(&format!("{home}main.rs"));
    let files = all(".rs");
    let modules = files.iter().filter_map(|source| source.path.strip_prefix(home)?.split(['/', '.']).next());
    let forgotten: Vec<_> = modules
        .filter(|module| *module != "main" && !main.lines().any(|line| line == format!("mod {module};")))
        .map(|module| format!("{home}{module}"))
        .collect();
    none(&forgotten, "test files that main.rs does not name");
}
