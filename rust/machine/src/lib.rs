//! Functional model of the NDP core: what a program does to DRAM and buffer.

#![deny(missing_docs)]
