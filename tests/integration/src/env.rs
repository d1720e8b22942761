//! The environment of the tests: where the servers are, and where the program under test lies. The only
//! place of the harness that reads environment variables.

use std::path::{Path, PathBuf};

/// URL of a PostgreSQL superuser on the shared test server, from `FENCEPOST_TEST_POSTGRES`.
///
/// # Panics
/// When the variable is missing: a test without its server has failed, it is never skipped.
pub fn postgres() -> String {
    required("FENCEPOST_TEST_POSTGRES")
}

/// Bootstrap servers of the shared test cluster, from `FENCEPOST_TEST_KAFKA`.
///
/// # Panics
/// When the variable is missing: a test without its server has failed, it is never skipped.
pub fn kafka() -> String {
    required("FENCEPOST_TEST_KAFKA")
}

/// Factor on the durations of long tests, from `FENCEPOST_TEST_SCALE`: below 1 in CI, 1 (the default) is
/// the full length of `make bugs-long`.
///
/// # Panics
/// When the variable is not a positive number.
pub fn scale() -> f64 {
    let Some(text) = read("FENCEPOST_TEST_SCALE") else { return 1.0 };
    let scale: f64 = text.parse().unwrap_or(f64::NAN);
    assert!(scale > 0.0, "FENCEPOST_TEST_SCALE must be a positive number, is {text:?}");
    scale
}

/// The `fencepost` program, built with the feature `failpoints`: `FENCEPOST_BIN`, else the one beside
/// this test's own program in the target directory.
///
/// # Panics
/// When there is none, with the command that builds it.
pub fn fencepost_bin() -> PathBuf {
    let path = match read("FENCEPOST_BIN") {
        Some(path) => PathBuf::from(path),
        None => beside_this_test("fencepost"),
    };
    let build = "cargo build -p fencepost-relay --features failpoints (make test does)";
    assert!(path.is_file(), "no program at {}: build it by {build}", path.display());
    path
}

/// The demo's program, in the folder of [`fencepost_bin`]: built with failpoints as that is.
///
/// # Panics
/// When there is none, with the command that builds it.
pub fn demo_bin() -> PathBuf {
    let path = fencepost_bin().with_file_name("fencepost-demo");
    let build = "cargo build -p fencepost-demo --features failpoints (make test does)";
    assert!(path.is_file(), "no program at {}: build it by {build}", path.display());
    path
}

/// Root folder of the project.
pub fn project_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("tests/integration lies two levels below the root").to_path_buf()
}

/// The variable `name`, or `None` when it is unset or empty.
pub fn read(name: &str) -> Option<String> {
    #[allow(clippy::disallowed_methods, reason = "the home of the environment in tests")]
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn required(name: &str) -> String {
    read(name).unwrap_or_else(|| panic!("{name} is not set: run the tests by `make test`, which starts the servers"))
}

/// Test programs lie in `target/<profile>/deps`, binaries one level up.
fn beside_this_test(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a process knows its own program");
    let profile = this.ancestors().nth(2).expect("a test program lies in target/<profile>/deps");
    profile.join(name)
}
