//! Which crate may depend on which, from the Cargo.toml files.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::sources::{none, read};

/// Crates of the workspace, and those of the workspace that each may depend on. Producer, consumer and relay
/// don't know one another: their contracts are the schema and the record headers, named in core.
const EDGES: [(&str, &[&str]); 9] = [
    ("core", &[]),
    ("producer-lib", &["fencepost-core"]),
    // the benchmark is a verb of the program
    ("relay", &["fencepost-core", "fencepost-bench"]),
    ("tests/sim", &["fencepost-core", "fencepost-relay"]),
    // sees everything
    (
        "tests/integration",
        &[
            "fencepost-core",
            "fencepost-producer",
            "fencepost-relay",
            "fencepost-sim",
            "fencepost-auditor",
            "fencepost-bench",
        ],
    ),
    // a judge that shares code with the judged shares its mistakes
    ("tests/auditor", &[]),
    ("benches", &["fencepost-core", "fencepost-producer"]),
    ("benches/baseline", &[]),
    // the whole story; nobody knows it
    ("demo", &["fencepost-producer", "fencepost-consumer", "fencepost-relay", "fencepost-auditor"]),
];

fn manifest(folder: &str) -> Table {
    read(&format!("{folder}/Cargo.toml")).parse().unwrap_or_else(|e| panic!("{folder}/Cargo.toml: {e}"))
}

/// Names in a manifest's table of dependencies.
fn names(manifest: &Table, table: &str) -> BTreeSet<String> {
    let table = manifest.get(table).and_then(Value::as_table);
    table.map_or_else(BTreeSet::new, |table| table.keys().cloned().collect())
}

#[test]
fn crates_depend_only_downwards() {
    let mut complaints = Vec::new();
    for (folder, allowed) in EDGES {
        let manifest = manifest(folder);
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let ours = names(&manifest, table).into_iter().filter(|name| name.starts_with("fencepost-"));
            let refused = ours.filter(|name| !allowed.contains(&name.as_str()));
            complaints.extend(refused.map(|name| format!("{folder} has {name} among its {table}")));
        }
    }
    none(&complaints, "crates that know what they may not");
}

#[test]
fn every_crate_has_its_edges_written_down() {
    let root: Table = read("Cargo.toml").parse().expect("the workspace's manifest");
    let members = root["workspace"]["members"].as_array().expect("a list of members");
    let members: BTreeSet<&str> = members.iter().filter_map(Value::as_str).collect();
    let written: BTreeSet<&str> = EDGES.iter().map(|(folder, _)| *folder).collect();
    assert_eq!(members, written, "members of the workspace and the table of edges differ");
}

#[test]
fn core_depends_on_nothing() {
    let core = manifest("core");
    assert_eq!(names(&core, "dependencies"), BTreeSet::new());
    assert_eq!(names(&core, "build-dependencies"), BTreeSet::new());
}

/// Features of a whole build are united: one crate that asked for the failpoints would put them into every relay that
/// is built beside it.
#[test]
fn nothing_has_failpoints_unless_a_build_asks_for_them() {
    let names = |list: &Value| {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).any(|f| f.ends_with("failpoints"))
    };
    let mut complaints = Vec::new();
    for (folder, _) in EDGES {
        let manifest = manifest(folder);
        if manifest.get("features").and_then(|features| features.get("default")).is_some_and(names) {
            complaints.push(format!("{folder} has them by default"));
        }
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let table = manifest.get(table).and_then(Value::as_table).into_iter().flatten();
            let asking = table.filter(|(_, dependency)| dependency.get("features").is_some_and(names));
            complaints.extend(asking.map(|(name, _)| format!("{folder} asks {name} for them")));
        }
    }
    none(&complaints, "failpoints without being asked for");
}

/// A crate that only tests of other crates may use would hide here.
#[test]
fn every_dependency_is_justified() {
    let listed: BTreeSet<String> = read("docs/DEPENDENCIES.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next().map(str::to_owned))
        .filter(|name| name != "crate" && !name.starts_with('-'))
        .collect();
    let mut used = BTreeSet::new();
    for (folder, _) in EDGES {
        let manifest = manifest(folder);
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            used.extend(names(&manifest, table).into_iter().filter(|name| !name.starts_with("fencepost-")));
        }
    }
    let missing: Vec<_> = used.difference(&listed).cloned().collect();
    none(&missing, "dependencies without a line in docs/DEPENDENCIES.md");
}
