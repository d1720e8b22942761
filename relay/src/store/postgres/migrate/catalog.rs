//! What the catalog must hold once all migrations ran, and how a schema differs from it.

use std::collections::BTreeSet;
use std::fmt;

use fencepost_core::schema::Schema;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

const CATALOG: &str = include_str!("catalog.sql");

/// The expected lines; a test compares them with what the migrations make.
const EXPECTED: &str = include_str!("../../../../../migrations/postgres/catalog.txt");

/// Lines of the catalog's description that are missing or not expected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    missing: Vec<String>,
    unexpected: Vec<String>,
}

impl Drift {
    /// Compares a description with the expected one.
    pub(super) fn between(actual: &[String]) -> Self {
        let expected: BTreeSet<&str> = EXPECTED.lines().collect();
        let actual: BTreeSet<&str> = actual.iter().map(String::as_str).collect();
        let only = |a: &BTreeSet<&str>, b: &BTreeSet<&str>| a.difference(b).map(|line| (*line).to_owned()).collect();
        Drift { missing: only(&expected, &actual), unexpected: only(&actual, &expected) }
    }

    /// Whether nothing differs.
    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty()
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.missing {
            writeln!(f, "  missing: {line}")?;
        }
        for line in &self.unexpected {
            writeln!(f, "  not expected: {line}")?;
        }
        Ok(())
    }
}

/// What the catalog holds of this program's objects: sorted lines, free of the schema's name.
///
/// # Errors
/// The database's.
pub async fn describe(connection: &mut PgConnection, schema: &Schema) -> Result<Vec<String>, sqlx::Error> {
    let mut tx = connection.begin().await?;
    // constants in constraints are printed by the session's settings
    let settings = format!(
        "SET LOCAL search_path = pg_catalog, {}; SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO'; \
         SET LOCAL intervalstyle = 'postgres'",
        schema.quoted()
    );
    sqlx::raw_sql(AssertSqlSafe(settings)).execute(&mut *tx).await?;
    let lines = sqlx::query_scalar(CATALOG).bind(schema.name()).persistent(false).fetch_all(&mut *tx).await?;
    tx.commit().await?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_differs() {
        let mut lines: Vec<String> = EXPECTED.lines().map(str::to_owned).collect();
        assert!(Drift::between(&lines).is_empty());
        let gone = lines.remove(0);
        lines.push("index outbox mine".into());
        let text = Drift::between(&lines).to_string();
        assert_eq!(text, format!("  missing: {gone}\n  not expected: index outbox mine\n"));
    }
}
