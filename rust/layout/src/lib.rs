//! Placement of matrices and vectors over ranks, bank groups and rows of the DRAM.

#![deny(missing_docs)]
