//! The store conformance suite on each backend.

/// PostgreSQL.
mod postgres {
    use fencepost_integration::conformance::postgres::PostgresFixture;
    use fencepost_integration::conformance_tests;

    conformance_tests!(PostgresFixture);
}
