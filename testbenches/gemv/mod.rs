//! The GEMV unit: products of every form.

pub mod gemv_unit;
pub mod heads;
pub mod merge;
pub mod parameters;
pub mod quantised;
pub mod select;
pub mod series;
