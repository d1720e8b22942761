//! Carries the verbs of the command line out: reads the configuration, connects, and lets the verb speak.

use std::ffi::OsString;
use std::io::Write;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use fencepost_core::lane::LaneId;
use fencepost_core::schema::Schema;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{RunError, postgres_settings};
use crate::cli::audit::Audit;
use crate::cli::lane::Lane;
use crate::cli::migrate::{Migrate, MigrationLine, Which};
use crate::cli::{self, Arguments, CliError, Exit, Output, Verb};
use crate::config::{self, Config, Environment, Loaded, Source};
use crate::ops;
use crate::publisher::kafka;
use crate::store::postgres::migrate::{MigrateError, Migrator, RolePrefix};
use crate::store::postgres::{PlainConnection, PostgresAdmin, PostgresStore};
use crate::telemetry;

/// The whole program but the process: reads the arguments, does it, and returns the exit code.
pub fn program(data: &mut dyn Write, notes: &mut dyn Write) -> u8 {
    carry_out_parsed(command().try_get_matches(), data, notes)
}

/// As [`program`], with these arguments instead of the process's; the first is the program's name.
pub fn program_with(arguments: impl IntoIterator<Item = OsString>, data: &mut dyn Write, notes: &mut dyn Write) -> u8 {
    carry_out_parsed(command().try_get_matches_from(arguments), data, notes)
}

fn carry_out_parsed(matches: Result<ArgMatches, clap::Error>, data: &mut dyn Write, notes: &mut dyn Write) -> u8 {
    let arguments = match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are data; the rest is a complaint.
            let text = error.render().to_string();
            if error.use_stderr() {
                let _ = notes.write_all(text.as_bytes());
                return Exit::Usage as u8;
            }
            return if data.write_all(text.as_bytes()).is_ok() { Exit::Done as u8 } else { Exit::Failed as u8 };
        }
    };
    #[cfg(feature = "bench")]
    if let Verb::Bench(arguments) = &arguments.verb {
        return bench(arguments, notes);
    }
    let mut out = Output { data, notes };
    match execute(arguments, &mut out) {
        Ok(()) => Exit::Done as u8,
        Err(error) => {
            // With nowhere to write it, the exit code alone must do.
            let _ = out.note(format!("error: {error}"));
            error.exit as u8
        }
    }
}

/// Measures this very program as a process of its own.
#[cfg(feature = "bench")]
fn bench(arguments: &fencepost_bench::cli::Args, notes: &mut dyn Write) -> u8 {
    match config::own_program() {
        Ok(program) => fencepost_bench::cli::run(arguments, &program),
        Err(error) => {
            let _ = writeln!(notes, "error: the program's own file can't be found: {error}");
            Exit::Failed as u8
        }
    }
}

/// clap's parser with the version that names what is built in.
fn command() -> clap::Command {
    let version: &'static str = Box::leak(version().into_boxed_str());
    Arguments::command().version(version)
}

/// Version, librdkafka's version, and what it was built with.
fn version() -> String {
    let (client, features) = kafka::built_in();
    format!("{}\nlibrdkafka {client}\nKafka features: {features}", env!("CARGO_PKG_VERSION"))
}

fn execute(arguments: Arguments, out: &mut Output<'_>) -> Result<(), CliError> {
    match &arguments.verb {
        Verb::Config(verb) if verb.default => return cli::config::print_default(out),
        Verb::Migrate(Migrate::Sql { schema, after, roles, role_prefix }) => {
            let migrator = Migrator::new(schema_named(schema)?);
            let sql = if *roles { migrator.roles_sql(&prefix(role_prefix)?) } else { migrator.sql(*after) };
            return out.line(sql.trim_end());
        }
        _ => {}
    }
    let loaded = config::load(&arguments.inputs(), &Environment::of_process())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::new(Exit::Failed, format!("no runtime can be made: {error}")))?;
    runtime.block_on(carry_out(&arguments.verb, loaded, out))
}

async fn carry_out(verb: &Verb, loaded: Loaded, out: &mut Output<'_>) -> Result<(), CliError> {
    let config = &loaded.config;
    match verb {
        Verb::Run => run(loaded.config).await,
        Verb::Config(_) => cli::config::print(&loaded, out),
        Verb::Healthcheck(verb) => cli::healthcheck::run(verb, config.http.listen, out).await,
        Verb::Status(verb) => {
            let mut seen = Vec::new();
            for source in chosen(config, verb.source.as_deref())? {
                seen.push((source.name.clone(), look(config, source).await));
            }
            cli::status::print(seen, verb.json, out)
        }
        Verb::Lane(verb) => lane(verb, config, out).await,
        Verb::Audit(verb) => audit(verb, config, out).await,
        Verb::Migrate(verb) => migrate(verb, config, out).await,
        #[cfg(feature = "bench")]
        Verb::Bench(_) => Ok(()), // needs no configuration: done before it is read
    }
}

async fn run(config: Config) -> Result<(), CliError> {
    telemetry::init(&config.log).map_err(|error| CliError::new(Exit::Failed, error.to_string()))?;
    super::run(config).await.map_err(|error| {
        let exit = match error {
            RunError::NoBrokers | RunError::Kafka(_) => Exit::Usage,
            RunError::Io(_) | RunError::CutShort => Exit::Failed,
        };
        CliError::new(exit, error.to_string())
    })
}

/// The sources that a verb is for: the named one, or all.
fn chosen<'a>(config: &'a Config, name: Option<&str>) -> Result<Vec<&'a Source>, CliError> {
    let Some(name) = name else { return Ok(config.sources.iter().collect()) };
    let found: Vec<_> = config.sources.iter().filter(|source| source.name == name).collect();
    if found.is_empty() {
        let known: Vec<_> = config.sources.iter().map(|source| source.name.as_str()).collect();
        return Err(cli::status::no_such_source(name, &known));
    }
    Ok(found)
}

/// The one source that a verb changes: it must be named where there are several.
fn the_one<'a>(config: &'a Config, name: Option<&str>) -> Result<&'a Source, CliError> {
    match chosen(config, name)?[..] {
        [source] => Ok(source),
        _ => Err(CliError::new(Exit::Usage, "there are several sources: say which by --source NAME")),
    }
}

fn store(config: &Config, source: &Source) -> Result<PostgresStore, CliError> {
    PostgresStore::new(postgres_settings(config, source)).map_err(|error| CliError::from(error).of_source(&source.name))
}

async fn admin(config: &Config, source: &Source) -> Result<PostgresAdmin, CliError> {
    store(config, source)?.admin().await.map_err(|error| CliError::from(error).of_source(&source.name))
}

async fn look(config: &Config, source: &Source) -> Result<ops::status::SourceSummary, CliError> {
    // Without the source's name: the caller puts it before.
    let store = PostgresStore::new(postgres_settings(config, source))?;
    Ok(ops::status::look(&mut store.admin().await?).await?)
}

async fn lane(verb: &Lane, config: &Config, out: &mut Output<'_>) -> Result<(), CliError> {
    match verb {
        Lane::List { source, json } => {
            let mut lists = Vec::new();
            for source in chosen(config, source.as_deref())? {
                let lanes = ops::lane::list(&mut admin(config, source).await?).await;
                lists
                    .push((source.name.clone(), lanes.map_err(|error| CliError::from(error).of_source(&source.name))?));
            }
            cli::lane::print(&lists, *json, out)
        }
        Lane::Init(init) => {
            let source = the_one(config, init.source.as_deref())?;
            let report = ops::lane::init(&mut admin(config, source).await?, init.wish()).await;
            let report = report.map_err(|error| CliError::from(error).of_source(&source.name))?;
            cli::lane::print_init(init.wish(), &report, out)
        }
        Lane::Release { lane, source, force } => {
            let source = the_one(config, source.as_deref())?;
            let owner = ops::lane::release(&mut admin(config, source).await?, LaneId(*lane), *force).await;
            let owner = owner.map_err(|error| CliError::from(error).of_source(&source.name))?;
            cli::lane::print_release(LaneId(*lane), owner.as_deref(), out)
        }
    }
}

async fn audit(verb: &Audit, config: &Config, out: &mut Output<'_>) -> Result<(), CliError> {
    match verb {
        Audit::List { source, all, json } => {
            let mut lists = Vec::new();
            for source in chosen(config, source.as_deref())? {
                let found = ops::audit::list(&mut admin(config, source).await?, *all).await;
                lists
                    .push((source.name.clone(), found.map_err(|error| CliError::from(error).of_source(&source.name))?));
            }
            cli::audit::print(&lists, *json, out)
        }
        Audit::Close(close) => {
            let source = the_one(config, close.source.as_deref())?;
            let actor = close.actor.clone().or_else(|| Environment::of_process().user());
            let actor = actor.ok_or_else(cli::audit::no_actor)?;
            let (lane, batch) = (LaneId(close.lane), close.batch);
            let closed = ops::audit::close(&mut admin(config, source).await?, lane, batch, &actor, &close.reason).await;
            closed.map_err(|error| CliError::from(error).of_source(&source.name))?;
            cli::audit::print_close(lane, batch, out)
        }
    }
}

async fn migrate(verb: &Migrate, config: &Config, out: &mut Output<'_>) -> Result<(), CliError> {
    match verb {
        Migrate::Up { which, roles, role_prefix } => {
            for mut source in open(which, config).await? {
                let done = source.migrator.up(&mut source.connection).await.map_err(|error| source.fault(error))?;
                out.line(source.applied(&done))?;
                if *roles {
                    source.make_roles(role_prefix, out).await?;
                }
            }
            Ok(())
        }
        Migrate::Status { which, json } => {
            let mut lines = Vec::new();
            for mut source in open(which, config).await? {
                let status =
                    source.migrator.status(&mut source.connection).await.map_err(|error| source.fault(error))?;
                let applied = |us: i64| OffsetDateTime::from_unix_timestamp_nanos(i128::from(us) * 1_000).ok();
                lines.extend(status.into_iter().map(|one| MigrationLine {
                    source: source.name.clone(),
                    version: one.version,
                    name: one.name,
                    applied_at: one.applied_at_us.and_then(applied).and_then(|at| at.format(&Rfc3339).ok()),
                }));
            }
            cli::migrate::print_status(&lines, *json, out)
        }
        Migrate::Check { which } => {
            for mut source in open(which, config).await? {
                source.migrator.check(&mut source.connection).await.map_err(|error| source.fault(error))?;
                out.line(format!("source {}: the schema is what this program's migrations make", source.name))?;
            }
            Ok(())
        }
        Migrate::Roles { which, role_prefix } => {
            for mut source in open(which, config).await? {
                source.make_roles(role_prefix, out).await?;
            }
            Ok(())
        }
        // Needs no configuration, so it was printed before one was read.
        Migrate::Sql { .. } => Ok(()),
    }
}

/// A source that is being migrated.
struct Migrated {
    name: String,
    migrator: Migrator,
    connection: PlainConnection,
}

async fn open(which: &Which, config: &Config) -> Result<Vec<Migrated>, CliError> {
    let mut all = Vec::new();
    for source in chosen(config, which.source.as_deref())? {
        let store = store(config, source)?;
        let connection = store.unchecked().await.map_err(|error| CliError::from(error).of_source(&source.name))?;
        all.push(Migrated { name: source.name.clone(), migrator: Migrator::new(store.schema().clone()), connection });
    }
    Ok(all)
}

impl Migrated {
    fn fault(&self, error: MigrateError) -> CliError {
        let exit = match error {
            MigrateError::Pending { .. }
            | MigrateError::Changed { .. }
            | MigrateError::Drifted(_)
            | MigrateError::Unknown(_) => Exit::Unfit,
            MigrateError::Busy(_) | MigrateError::Denied { .. } | MigrateError::Database { .. } => Exit::Failed,
        };
        CliError::new(exit, error.to_string()).of_source(&self.name)
    }

    fn applied(&self, done: &[i32]) -> String {
        match done {
            [] => format!("source {}: nothing to apply", self.name),
            [first @ .., last] => {
                let numbers: Vec<_> = first.iter().chain([last]).map(ToString::to_string).collect();
                format!("source {}: applied {}", self.name, numbers.join(", "))
            }
        }
    }

    async fn make_roles(&mut self, role_prefix: &str, out: &mut Output<'_>) -> Result<(), CliError> {
        let prefix = prefix(role_prefix)?;
        self.migrator.roles(&mut self.connection, &prefix).await.map_err(|error| self.fault(error))?;
        out.line(format!("source {}: roles {role_prefix}_owner, _producer, _relay and _admin are in place", self.name))
    }
}

fn prefix(name: &str) -> Result<RolePrefix, CliError> {
    RolePrefix::new(name).map_err(|error| CliError::new(Exit::Usage, error.to_string()))
}

fn schema_named(name: &str) -> Result<Schema, CliError> {
    Schema::new(name).map_err(|error| CliError::new(Exit::Usage, format!("the schema's name is not usable: {error}")))
}
