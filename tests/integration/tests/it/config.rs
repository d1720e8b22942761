//! The configuration as the program itself reads and prints it.

use std::process::Output;

use fencepost_integration::process::Launch;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Ran without an error, and its data.
fn data(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn the_default_file_is_printed_and_reads_back() {
    let default = data(&Launch::new(&["config", "--default"]).run());
    assert_eq!(default.trim_end(), fencepost_relay::config::DEFAULT_FILE.trim_end());
    let again = Launch::new(&["config"]).config(default).env("FENCEPOST__SOURCE__0__URL", "postgres://me@db/app").run();
    assert!(data(&again).contains("length = \"15s\""));
}

#[test]
fn every_layer_shows_where_a_value_came_from() {
    let launch = Launch::new(&["config", "--set", "lease.margin=1s"]).config("[lease]\nlength = \"20s\"\n");
    let launch =
        launch.env("FENCEPOST__LEASE__RENEW", "4s").env("FENCEPOST__SOURCE__0__URL", "postgres://me:SECRET123@db/app");
    let printed = data(&launch.run());
    for line in
        ["margin = \"1s\"  # --set", "renew = \"4s\"  # FENCEPOST__LEASE__RENEW", "fencepost.toml:2", "url = \"***\""]
    {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    assert!(!printed.contains("SECRET123"));
}

#[test]
fn b40_what_is_out_of_bounds_never_starts() {
    for (key, value) in [
        ("lease.length", "0s"),
        ("lease.length", "-1s"),
        ("lease.length", "1ms"),
        ("lease.length", "365d"),
        ("lease.renew", "20s"),
        ("source.0.statement_timeout", "14s"),
        ("kafka.delivery_deadline", "0s"),
        ("kafka.route_timeout", "10ms"),
        ("relay.grace", "365d"),
    ] {
        let set = format!("{key}={value}");
        let launch =
            Launch::new(&["run", "--set", &set]).env("FENCEPOST__SOURCE__0__URL", "postgres://me@127.0.0.1:1/app");
        let output = launch.run();
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{set}: {complaint}");
        assert!(complaint.contains("--set: ") && complaint.contains(key), "{complaint}");
    }
}

#[test]
fn b165_no_form_of_a_password_is_ever_printed() {
    let password = "p^w$#d@1";
    let dsn = format!("host=127.0.0.1 port=1 user=me dbname=app password={password}");
    let unescaped = format!("postgres://me:{password}@127.0.0.1:1/app");
    let escaped = "postgres://me:p%5Ew%24%23d%401@127.0.0.1:1/app?connect_timeout=1";
    for url in [dsn.as_str(), &unescaped, escaped] {
        for verb in ["status", "run"] {
            let launch = Launch::new(&[verb, "--set", "log.level=trace"]).env("FENCEPOST__SOURCE__0__URL", url);
            let output = launch.env("FENCEPOST__KAFKA__BROKERS", "127.0.0.1:1").run();
            assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
            let all = text(&output.stdout) + &text(&output.stderr);
            assert!(!all.contains("p^w") && !all.contains("p%5E"), "{all}");
        }
    }
    // Given apart, the same password needs no escaping, and shows in no error of the connection.
    let parts = [
        ("FENCEPOST__SOURCE__0__HOST", "127.0.0.1"),
        ("FENCEPOST__SOURCE__0__PORT", "1"),
        ("FENCEPOST__SOURCE__0__USER", "me"),
        ("FENCEPOST__SOURCE__0__DATABASE", "app"),
        ("FENCEPOST__SOURCE__0__PASSWORD", password),
    ];
    let output = parts.iter().fold(Launch::new(&["status"]), |launch, (name, value)| launch.env(name, value)).run();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("p^w"), "{}", text(&output.stderr));
}

#[test]
fn b148_the_version_names_what_is_built_in() {
    let version = data(&Launch::new(&["--version"]).run());
    for feature in ["librdkafka 2.", "gzip", "snappy", "lz4", "zstd", "ssl", "sasl_plain", "sasl_scram"] {
        assert!(version.contains(feature), "{feature}\n{version}");
    }
}

#[test]
fn b148_a_codec_or_mechanism_that_is_not_there_never_starts() {
    for set in ["kafka.compression=brotli", "kafka.sasl.mechanism=GSSAPI", "kafka.properties.compression.type=zstd"] {
        let launch = Launch::new(&["run", "--set", set, "--set", "kafka.brokers=127.0.0.1:1"]);
        let output = launch.env("FENCEPOST__SOURCE__0__URL", "postgres://me@127.0.0.1:1/app").run();
        assert_eq!(output.status.code(), Some(2), "{set}: {}", text(&output.stderr));
    }
}
