//! Enqueue messages in the transaction that changes the domain.
