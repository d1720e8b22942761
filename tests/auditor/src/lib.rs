//! Judges from outside: what was committed against what the topic holds.
