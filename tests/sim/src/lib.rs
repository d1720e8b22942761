//! A fake store and Kafka around the real step function: seeded simulation and model checking.
