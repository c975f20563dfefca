//! Fuzzing of what reads bytes that somebody else wrote.
//!
//! [`targets`] has a function for each reader. It takes any bytes, and panics if the reader does, or breaks what it promises: what was read
//! and is written again is the same. `cargo fuzz` calls these functions with coverage as its guide (`--features libfuzzer`); the program
//! `ndp-fuzz` calls them with the files of the repository, changed at random ([`mutator`]), and needs no special compiler.
//! `corpus/<target>` has inputs that once made a reader panic, and small ones that no other file of the repository covers.

pub mod mutator;
pub mod targets;
