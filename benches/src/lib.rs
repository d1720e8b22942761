//! Measures the relay: drain, steady rate, latency, idle.
