//! A clock domain and the names of its ports; `domains` has the rules.

use crate::bits::Owner;
use std::collections::BTreeMap;

/// A clock of a module with its reset.
#[derive(Clone, Debug)]
pub struct Domain {
    pub(crate) owner: Owner,
    /// Number among the module's further domains; `None` is the module's own clock.
    pub(crate) index: Option<usize>,
}

/// The ports `clk_i` and `rst_ni` that further domains may add to a module.
pub(crate) fn implicit_names(domain: &str) -> [String; 2] {
    [format!("{domain}_clk_i"), format!("{domain}_rst_ni")]
}

/// Domain of each port, by name; the empty name is the module's own clock.
#[derive(Debug, Default)]
pub(crate) struct PortDomains {
    /// Inputs by the domain that reads them.
    pub sinks: BTreeMap<String, String>,
    /// Outputs by the domain whose registers they come from.
    pub sources: BTreeMap<String, String>,
}
