//! Tests of the configuration as a whole. The default file is tested as what it claims to be: the list of all
//! keys, their documentation, and a working example.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::rules::{RULES, Rule};
use super::*;

/// The least that a user must say.
const URL: (&str, &str) = ("FENCEPOST__SOURCE__0__URL", "postgres://me:hush@db/app");

fn load_with(sets: &[&str], env: &[(&str, &str)]) -> Result<Config, String> {
    let inputs = Inputs { file: None, sets: sets.iter().map(ToString::to_string).collect() };
    let env = [URL].iter().chain(env).copied().collect();
    load(&inputs, &env).map(|loaded| loaded.config).map_err(|errors| errors.to_string())
}

fn load_file(text: &str, env: &[(&str, &str)]) -> Result<Loaded, String> {
    let folder = Folder::new();
    let file = folder.file("relay.toml", text);
    let inputs = Inputs { file: Some(file.clone()), sets: Vec::new() };
    load(&inputs, &env.iter().copied().collect())
        .map_err(|errors| errors.to_string().replace(&file.display().to_string(), "relay.toml"))
}

fn why(result: Result<Loaded, String>) -> String {
    result.err().expect("the configuration was accepted")
}

/// A folder of a test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder =
            std::env::temp_dir().join(format!("fencepost-config-{:?}", crate::random::Random::default().tag()));
        std::fs::create_dir(&folder).expect("a folder");
        Folder(folder)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        std::fs::write(&file, text).expect("a file");
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Every key of the default file with the comment above it; keys that follow each other share one.
fn documented() -> BTreeMap<String, String> {
    let (mut keys, mut section, mut comment, mut used) = (BTreeMap::new(), "", String::new(), false);
    for line in DEFAULT_FILE.lines() {
        if let Some(text) = line.strip_prefix('#') {
            comment = if used { text.to_owned() } else { comment + text };
            used = false;
        } else if let Some((key, _)) = line.split_once(" = ") {
            keys.insert(format!("{section}.{key}"), comment.clone());
            used = true;
        } else {
            section = if line.starts_with('[') { line.trim_matches(['[', ']']) } else { section };
            comment.clear();
        }
    }
    keys
}

#[test]
fn the_default_file_has_every_key_and_no_other() {
    let known: BTreeSet<_> = RULES.iter().map(|(key, _)| (*key).to_owned()).filter(|key| !key.ends_with('*')).collect();
    let there: BTreeSet<_> = documented().into_keys().collect();
    assert_eq!(there, known);
}

#[test]
fn every_key_says_its_bounds_and_choices() {
    let documented = documented();
    for (key, rule) in RULES.iter().filter(|(key, _)| !key.ends_with('*')) {
        let comment = &documented[*key];
        if let Some(bounds) = rule.bounds() {
            assert!(comment.contains(&format!("Bounds: {bounds}.")), "{key} has no line 'Bounds: {bounds}.'");
        }
        if let Some(choices) = rule.choices() {
            assert!(comment.contains(&format!("One of: {choices}.")), "{key} has no line 'One of: {choices}.'");
        }
    }
}

#[test]
fn the_default_file_is_the_default() {
    let config = load_with(&[], &[]).expect("the defaults");
    assert_eq!(config.lease.length, Duration::from_secs(15));
    assert_eq!(config.kafka.linger, Duration::from_micros(500));
    assert_eq!(config.kafka.compression, Compression::Lz4);
    assert_eq!(config.kafka.delivery_deadline, Duration::from_secs(120));
    let source = &config.sources[0];
    assert_eq!((source.page_rows, source.page_slots, source.page_bytes), (2_000, 3, 16 << 20));
    assert_eq!(
        (source.name.as_str(), source.ce_source.as_str(), source.schema.as_str()),
        ("main", "main", "fencepost")
    );
    assert_eq!(source.database.to_string(), "me@db:5432/app");
    assert!(config.http.listen.is_some_and(|address| address.ip().is_loopback()), "loopback unless told otherwise");
    assert!(rules::is_name(&config.relay.name), "the host's name: {}", config.relay.name);
}

#[test]
fn every_choice_of_every_key_is_taken() {
    for (key, rule) in RULES.iter().filter(|(key, _)| !key.starts_with("kafka.sasl")) {
        let Some(choices) = rule.choices() else { continue };
        for choice in choices.split(", ") {
            let set = format!("{}={choice}", key.replace("source.", "source.0."));
            load_with(&[&set], &[]).unwrap_or_else(|why| panic!("{set}: {why}"));
        }
    }
    let codecs: Vec<_> = Compression::ALL.iter().map(|codec| codec.name()).collect();
    assert_eq!(rules::rule("kafka.compression").and_then(Rule::choices), Some(codecs.join(", ")));
}

#[test]
fn layers_lie_over_one_another() {
    let file = "[lease]\nlength = \"40s\"\nrenew = \"8s\"\n[[source]]\nurl = \"postgres://me@db/app\"\n";
    let folder = Folder::new();
    let inputs = Inputs { file: Some(folder.file("f.toml", file)), sets: vec!["lease.length=60s".into()] };
    let env = [("FENCEPOST__LEASE__LENGTH", "50s"), ("FENCEPOST__LEASE__RENEW", "9s"), ("PATH", "/bin")];
    let config = load(&inputs, &env.into_iter().collect()).expect("layers").config;
    assert_eq!(config.lease.length, Duration::from_secs(60), "the flag");
    assert_eq!(config.lease.renew, Duration::from_secs(9), "the environment");
    assert_eq!(config.lease.margin, Duration::from_secs(2), "the default");
}

#[test]
fn the_file_may_come_from_the_environment() {
    let folder = Folder::new();
    let file = folder.file("f.toml", "[relay]\nname = \"from-file\"\n");
    let config = load_with(&[], &[("FENCEPOST_CONFIG", &file.display().to_string())]).expect("a file");
    assert_eq!(config.relay.name, "from-file");
    let gone = load_with(&[], &[("FENCEPOST_CONFIG", "/nowhere/f.toml")]).expect_err("no file");
    assert!(gone.contains("can't read /nowhere/f.toml"), "{gone}");
}

#[test]
fn every_source_has_the_built_in_ones_values() {
    let file = r#"
        [[source]]
        name = "orders"
        url = "postgres://me@db/orders"
        page_rows = 10
        [[source]]
        name = "bills"
        host = "db2"
        database = "bills"
        user = "me"
        schema = "outbox"
    "#;
    let env = [("FENCEPOST__SOURCE__BILLS__PASSWORD", "p^w$#d@1"), ("FENCEPOST__SOURCE__0__POLL_IDLE", "70ms")];
    let config = load_file(file, &env).expect("two sources").config;
    let [orders, bills] = &config.sources[..] else { panic!("{} sources", config.sources.len()) };
    assert_eq!((orders.page_rows, bills.page_rows), (10, 2_000));
    assert_eq!((orders.schema.as_str(), bills.schema.as_str()), ("fencepost", "outbox"));
    assert_eq!(bills.database.password.as_ref().map(Secret::expose), Some("p^w$#d@1"));
    assert_eq!((orders.poll_idle, bills.poll_idle), (Duration::from_millis(70), Duration::from_millis(100)));
}

#[test]
fn faults_are_told_together_with_file_and_line() {
    let file = "[lease]\nlenght = \"15s\"\n\n[kafka]\nbroker = [\"a:1\"]\n[relay]\nlength = \"1s\"\n";
    let text = why(load_file(file, &[]));
    for line in [
        "relay.toml:2: unknown key lease.lenght; did you mean lease.length?",
        "relay.toml:5: unknown key kafka.broker; did you mean kafka.brokers?",
        "relay.toml:7: unknown key relay.length; did you mean lease.length?",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let env =
        load_with(&[], &[("FENCEPOST__LEASE__LENGHT", "1s"), ("FENCEPOST__SOURCE__1__URL", "x")]).expect_err("env");
    assert!(env.contains("FENCEPOST__LEASE__LENGHT: unknown key lease.lenght; did you mean lease.length?"), "{env}");
    assert!(env.contains("FENCEPOST__SOURCE__1__URL: no source \"1\"; there are main"), "{env}");
    let flag = load_with(&["lease.lenght=1s", "nonsense"], &[]).expect_err("flags");
    assert!(flag.contains("--set: unknown key lease.lenght") && flag.contains("--set: not of the form"), "{flag}");
}

#[test]
fn sections_that_are_written_otherwise_are_explained() {
    for (file, expected) in [
        ("[source]\nname = \"a\"\n", "relay.toml:1: write [[source]]"),
        ("lease = \"15s\"\n", "relay.toml:1: lease is a section: [lease]"),
        ("[[lease]]\nlength = \"15s\"\n", "relay.toml:1: lease is a section"),
        ("[leese]\nlength = \"15s\"\n", "relay.toml:1: unknown key leese"),
        ("[lease]\nlength = 15\n", "relay.toml:2: lease.length is 15, must be a duration with its unit, 1s to 10m"),
        ("[kafka]\nbrokers = \"a:1\"\n", "relay.toml:2: kafka.brokers is \"a:1\", must be a list of host:port"),
        ("[kafka]\ncloudevents = \"yes\"\n", "relay.toml:2: kafka.cloudevents is \"yes\", must be true or false"),
        ("[lease\nlength = 15\n", "relay.toml:1: not TOML"),
    ] {
        let text = why(load_file(file, &[URL]));
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

#[test]
fn b40_every_bound_is_kept_at_both_ends() {
    for (key, rule) in RULES {
        let key = key.replace("source.", "source.0.");
        let bad: Vec<String> = match rule {
            Rule::Duration(low, high) => {
                let beyond = [*high + Duration::from_micros(1), Duration::from_secs(365 * 86_400)];
                let below = low.checked_sub(Duration::from_micros(1));
                let durations = beyond.into_iter().chain(below).map(units::show_duration);
                durations
                    .chain(["0", "-1", "-1s", "1", "inf", ""].map(str::to_owned))
                    .filter(|t| t != "0" || !low.is_zero())
                    .collect()
            }
            Rule::Int(low, high) => {
                vec![(low - 1).to_string(), (high + 1).to_string(), "-1".into(), "many".into(), "".into()]
            }
            Rule::Bytes(low, high) => {
                vec![
                    units::show_bytes(low - 1),
                    units::show_bytes(high + 1),
                    "0B".into(),
                    "-1MiB".into(),
                    "1000000".into(),
                    "".into(),
                ]
            }
            _ => continue,
        };
        for value in bad {
            let text =
                load_with(&[&format!("{key}={value}")], &[]).expect_err(&format!("{key} = {value:?} was accepted"));
            assert!(
                text.contains(&key) && text.contains(&rule.bounds().expect("bounds")) || text.contains("unit"),
                "{text}"
            );
        }
    }
}

#[test]
fn b40_times_are_checked_against_one_another() {
    for (sets, expected) in [
        (&["lease.renew=7500ms"][..], "lease.renew is 7s 500ms, must be less than half of lease.length (15s)"),
        (&["lease.margin=5s"], "lease.margin is 5s, must be less than a third of lease.length (15s)"),
        (&["source.main.statement_timeout=8s"], "source.0.statement_timeout is 8s: together with lease.renew (5s)"),
        (&["source.0.lock_timeout=6s"], "source.0.lock_timeout is 6s, must be at most source.0.statement_timeout (5s)"),
        (&["source.0.poll_busy=200ms"], "source.0.poll_busy is 200ms, must be at most source.0.poll_idle (100ms)"),
        (&["retry.base=20s"], "retry.base is 20s, must be at most retry.cap (10s)"),
        (&["lease.length=1s"], "lease.renew is 5s, must be less than half of lease.length (1s)"),
    ] {
        let text = load_with(sets, &[]).expect_err(expected);
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let short = [
        "lease.length=1s",
        "lease.margin=100ms",
        "lease.renew=200ms",
        "source.0.statement_timeout=500ms",
        "source.0.lock_timeout=500ms",
    ];
    load_with(&short, &[]).expect("a short lease whose parts are short");
}

#[test]
fn names_of_sources_are_unique() {
    let file = "[[source]]\nurl = \"postgres://me@a/a\"\n[[source]]\nurl = \"postgres://me@b/b\"\n";
    let text = why(load_file(file, &[]));
    assert!(text.contains("source.1 has the name \"main\" of source.0: names are unique"), "{text}");
}

#[test]
fn secrets_come_from_files_and_variables() {
    let folder = Folder::new();
    let url = folder.file("url", "postgres://me@db/app\n");
    let password = folder.file("password", "p^w$#d@1\n");
    let path = |path: &FilePath| path.display().to_string();
    let sets = [format!("source.0.url_file={}", path(&url)), format!("source.0.password_file={}", path(&password))];
    let config = load_with(&[&sets[0], &sets[1]], &[]).expect("files");
    let database = &config.sources[0].database;
    assert_eq!(
        (database.to_string().as_str(), database.password.as_ref().map(Secret::expose)),
        ("me@db:5432/app", Some("p^w$#d@1"))
    );
    let config = load_with(&["source.0.url_env=MY_DB"], &[("MY_DB", "postgres://you@db/app")]).expect("a variable");
    assert_eq!(config.sources[0].database.user, "you");
    let sasl = [
        "kafka.sasl.mechanism=PLAIN",
        "kafka.sasl.username=u",
        &format!("kafka.sasl.password_file={}", path(&password)),
    ];
    let config = load_with(&sasl, &[]).expect("sasl");
    let properties = config.kafka.client_properties();
    assert_eq!(properties["sasl.password"].expose(), "p^w$#d@1");
    assert_eq!(properties["security.protocol"].expose(), "SASL_PLAINTEXT");
}

#[test]
fn a_secret_that_is_not_there_is_a_fault() {
    for (set, expected) in [
        ("source.0.url_file=/nowhere", "source.0.url_file: can't read /nowhere"),
        ("source.0.url_env=NO_SUCH", "source.0.url_env: the environment has no variable NO_SUCH"),
        ("kafka.sasl.mechanism=PLAIN", "kafka.sasl.mechanism needs kafka.sasl.username and kafka.sasl.password"),
        ("kafka.sasl.username=u", "but no mechanism"),
        ("kafka.tls.ca_file=/ca.pem", "kafka.tls has files, but enabled is false"),
        ("source.0.host=x", "source.0 has both a url and host"),
    ] {
        let text = load_with(&[set], &[]).expect_err(expected);
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let none = load(&Inputs::default(), &Environment::default()).map(drop).expect_err("no database").to_string();
    assert!(
        none.contains("source \"main\" names no database (host is missing)")
            && none.contains("FENCEPOST__SOURCE__0__URL"),
        "{none}"
    );
}

#[test]
fn one_layer_may_not_say_a_thing_twice_but_a_higher_one_wins() {
    let file = "[[source]]\nurl = \"postgres://me@a/a\"\nurl_env = \"X\"\n";
    let text = why(load_file(file, &[]));
    assert!(text.contains("source.0.url_env and source.0.url are both set: give one of them"), "{text}");
    let file = "[[source]]\nurl_file = \"/nowhere\"\n";
    load_file(file, &[URL]).expect("the environment's url replaces the file's url_file");
}

#[test]
fn properties_are_librdkafkas_by_its_names() {
    let file = "[kafka.properties]\nsocket.timeout.ms = 5000\n\"socket.keepalive.enable\" = true\n[[source]]\nurl = \"postgres://me@a/a\"\n";
    let env = [("FENCEPOST__KAFKA__PROPERTIES__BATCH_SIZE", "65536")];
    let config = load_file(file, &env).expect("properties").config;
    let got: Vec<_> = config.kafka.properties.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(got, [("batch.size", "65536"), ("socket.keepalive.enable", "true"), ("socket.timeout.ms", "5000")]);
    let twice = ["kafka.tls.enabled=true", "kafka.properties.security.protocol=SSL"];
    let text = load_with(&twice, &[]).expect_err("twice");
    assert!(text.contains("kafka.properties.security.protocol is set by [kafka.tls]"), "{text}");
}

#[test]
fn b164_b165_no_secret_is_in_any_output() {
    let file = r#"
        [[source]]
        url = "postgres://me:SECRET1@db/app"
        [kafka.tls]
        enabled = true
        key_password = "SECRET2"
        [kafka.sasl]
        mechanism = "PLAIN"
        username = "u"
        password = "SECRET3"
        [kafka.properties]
        "ssl.keystore.password" = "SECRET4"
    "#;
    let loaded = load_file(file, &[]).expect("secrets");
    let printed = loaded.print();
    assert!(printed.contains("url = \"***\"") && printed.contains("\"ssl.keystore.password\" = \"***\""), "{printed}");
    let env: Environment = [("A", "SECRET5")].into_iter().collect();
    let shown = format!("{printed} {:?} {env:?}", loaded.config);
    assert!(!shown.contains("SECRET"), "{shown}");
    // Neither in the text of any fault: wrong type, wrong syntax, wrong key, wrong URL, on a command line.
    for (broken, env) in [
        ("[[source]]\nurl = \"SECRET\"\n", None),
        ("[[source]]\nurl = [\"SECRET\"]\n", None),
        ("[[source]]\nurl = \"SECRET\"unterminated\"\n", None),
        ("[[source]]\nurl = 'SECRET\n", None),
        ("[kafka.sasl]\npassword = 1\nmechanism = \"SECRET-no\"\npassword_file = \"x\"\n", None),
        ("[kafka.properties]\nx = [\"SECRET\"]\n", None),
        ("", Some(("FENCEPOST__SOURCE__0__URL", "host=h password=SECRET"))),
        ("", Some(("FENCEPOST__SOURCE__0__PASWORD", "SECRET"))),
    ] {
        let text = why(load_file(broken, env.as_slice()));
        assert!(!text.contains("SECRET") || broken.contains("SECRET-no"), "{text}");
    }
    for set in ["source.0.url=postgres://me:SECRET@db/app", "kafka.sasl.password=SECRET", "SECRET"] {
        let text = load_with(&[set], &[]).expect_err("a secret on the command line");
        assert!(!text.contains("SECRET"), "{text}");
    }
}

#[test]
fn what_is_printed_reads_back_and_says_where_from() {
    let loaded = load(&Inputs { file: None, sets: vec!["lease.length=20s".into()] }, &[URL].into_iter().collect());
    let printed = loaded.expect("loads").print();
    assert!(printed.contains("length = \"20s\"  # --set"), "{printed}");
    assert!(printed.contains("url = \"***\"  # FENCEPOST__SOURCE__0__URL"), "{printed}");
    layer::of_file(Some("printed"), &printed).unwrap_or_else(|errors| panic!("{errors}"));
}
