//! The consumer's database on PostgreSQL.

use sqlx::PgPool;

use super::Delivery;

/// The tables lie on its connections' `search_path`.
#[derive(Clone, Debug)]
pub struct PostgresBooks {
    pool: PgPool,
}

impl PostgresBooks {
    /// Over these connections.
    pub fn new(pool: PgPool) -> Self {
        PostgresBooks { pool }
    }

    pub(super) async fn make(&self) -> Result<(), sqlx::Error> {
        sqlx::query(include_str!("sql/make_ledger.sql")).execute(&self.pool).await?;
        sqlx::query(include_str!("sql/make_bills.sql")).execute(&self.pool).await?;
        Ok(())
    }

    pub(super) async fn apply(&self, batch: &[Delivery]) -> Result<u64, sqlx::Error> {
        let mut tx = self.pool.begin().await?;
        let mut applied = 0;
        for delivery in batch {
            let note = sqlx::query(include_str!("sql/note.sql")).bind(delivery.message_id.to_string());
            if note.execute(&mut *tx).await?.rows_affected() == 0 {
                continue;
            }
            let bill = sqlx::query(include_str!("sql/bill.sql")).bind(&delivery.order).bind(&delivery.customer);
            bill.bind(delivery.cents).execute(&mut *tx).await?;
            applied += 1;
        }
        tx.commit().await?;
        Ok(applied)
    }

    pub(super) async fn billed(&self) -> Result<(i64, i64), sqlx::Error> {
        sqlx::query_as(include_str!("sql/count_bills.sql")).fetch_one(&self.pool).await
    }
}
