//! Statements of this store: one file each, written for the schema `"fencepost"`, sent for the configured one.

use std::sync::Arc;

use fencepost_core::schema::Schema;
use sqlx::AssertSqlSafe;

/// One statement with the schema's name in place. Cheap to clone; sqlx prepares it once per connection.
#[derive(Clone)]
pub(super) struct Sql(Arc<str>);

impl Sql {
    /// The statement for one schema, without the file's header comment: the server shows a statement's first
    /// kilobyte to whoever looks for it.
    pub(super) fn new(schema: &Schema, template: &'static str) -> Self {
        let lines: Vec<&str> = template.lines().skip_while(|line| line.starts_with("--")).collect();
        Sql(schema.qualify(&lines.join("\n")).into())
    }

    /// The statement for sqlx. Its only variable part is a quoted identifier.
    pub(super) fn get(&self) -> AssertSqlSafe<Arc<str>> {
        AssertSqlSafe(self.0.clone())
    }
}
