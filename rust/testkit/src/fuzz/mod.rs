//! Fuzzing of the readers of foreign bytes.
//!
//! [`targets`] has a function for each reader. It takes any bytes, and panics if the reader does, or if the value read
//! does not survive writing and reading again. `cargo fuzz` calls these functions guided by coverage
//! (`--features libfuzzer`); the program `ndp-fuzz` calls them with randomly changed files of the repository
//! ([`mutator`]), and needs no special compiler. `corpus/<target>` has inputs that once made a reader panic, and small
//! ones that no other file of the repository covers.

pub mod mutator;
pub mod targets;
