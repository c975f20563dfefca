//! Shared by several testbenches: stimuli, drivers of units, and reference models.
#![cfg(feature = "rtl")]

pub mod activation_driver;
pub mod axi;
pub mod buffer_model;
pub mod causes;
pub mod check;
pub mod clocks;
pub mod energy;
pub mod exact;
pub mod function_driver;
pub mod gemv_driver;
pub mod linked_cores;
pub mod messages;
pub mod multiplier_driver;
pub mod operands;
pub mod pim_streams;
pub mod programs;
pub mod rank;
pub mod replay;
pub mod rtl;
pub mod selftest;
pub mod star;
pub mod traffic;

pub use ndp_testkit::{amount, first, some, whole};

pub type Outcome = Result<(), Box<dyn std::error::Error>>;
