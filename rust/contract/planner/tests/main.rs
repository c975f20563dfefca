//! Tests of the programs that the planner writes.

#![allow(clippy::unwrap_used)]

mod image;
mod kept;
mod random;
mod series;
