//! A SQLite file of one test: in a folder of its own, deleted when the test passes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost_relay::store::sqlite::migrate;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, Sqlite};

use crate::process::TestFolder;

/// A file, and the folder that it lies in.
pub struct TestFile {
    folder: TestFolder,
    path: PathBuf,
}

impl TestFile {
    /// A migrated file.
    ///
    /// # Panics
    /// When the migrations fail.
    pub fn create(name_hint: &str) -> Self {
        let file = Self::plain(name_hint);
        migrate::up(&file.path).expect("the migrations apply to a fresh file");
        file
    }

    /// A place for a file that is not there yet.
    pub fn plain(name_hint: &str) -> Self {
        let folder = TestFolder::create(name_hint);
        let path = folder.path().join("test.db");
        TestFile { folder, path }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder around it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// As a source's configuration names it.
    pub fn url(&self) -> String {
        format!("sqlite://{}", self.path.display())
    }

    /// A connection as a careful application opens it: five seconds of patience, commits on disk.
    ///
    /// # Panics
    /// When the file can't be opened.
    pub async fn connect(&self) -> SqliteConnection {
        self.connect_waiting(Duration::from_secs(5)).await
    }

    /// A connection that waits so long for another one's write.
    ///
    /// # Panics
    /// When the file can't be opened.
    pub async fn connect_waiting(&self, busy_timeout: Duration) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(&self.path).busy_timeout(busy_timeout);
        let options = options.disable_statement_logging();
        options.connect().await.unwrap_or_else(|e| panic!("{} can't be opened: {e}", self.path.display()))
    }
}

/// Runs SQL text, also several statements, whose result nobody needs.
///
/// # Panics
/// When SQLite refuses it.
pub async fn run(connection: &mut SqliteConnection, sql: impl Into<String>) {
    let sql = sql.into();
    if let Err(error) = connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.clone()))).await {
        panic!("{error}, in: {sql}");
    }
}

/// One value.
///
/// # Panics
/// When SQLite refuses the text or has no such value.
pub async fn value<T>(connection: &mut SqliteConnection, sql: &str) -> T
where
    T: for<'r> sqlx::Decode<'r, Sqlite> + sqlx::Type<Sqlite> + Send + Unpin,
{
    let query = sqlx::query_scalar(AssertSqlSafe(sql.to_owned()));
    query.fetch_one(connection).await.unwrap_or_else(|e| panic!("{e}, in: {sql}"))
}

/// What SQLite says when it refuses `sql`.
///
/// # Panics
/// When it does not refuse it.
pub async fn refusal(connection: &mut SqliteConnection, sql: &str) -> String {
    let refused = connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await;
    let Err(sqlx::Error::Database(error)) = refused else { panic!("not refused: {sql}") };
    error.message().to_owned()
}
