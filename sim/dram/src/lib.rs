//! DDR4 device model that stores data and checks every timing rule.

#![deny(missing_docs)]
