//! The story in one program: order services commit orders with their messages, two relays publish them, one of them
//! stands still between the check of its lease and its mark and is rejected, a consumer applies each order's effect
//! once, and an auditor that reads the topic compares all sides.
//!
//! `program` runs it: `stage` is where it takes place (`broker`, `database`), `story` what happens, `shop`,
//! `relay`, `consumer` and `auditor` are who acts, `board` is what there is to see, `view` draws it, `verdict` judges.

pub mod args;
pub mod auditor;
pub mod board;
pub mod broker;
pub mod child;
pub mod clock;
pub mod consumer;
pub mod database;
pub mod error;
pub mod figures;
pub mod program;
pub mod random;
pub mod relay;
pub mod shop;
pub mod stage;
pub mod story;
pub mod tally;
pub mod verdict;
pub mod view;
