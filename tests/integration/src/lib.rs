//! Tests against real PostgreSQL and real Kafka, with real processes.
