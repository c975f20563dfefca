//! Tests of the programs that the planner writes.

mod image;
mod kept;
mod random;
mod series;
