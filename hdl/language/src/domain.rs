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

/// Why a signal may be read with another clock than its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// A number in Gray code: it comes straight from registers, changes in one bit at a time, and goes only to
    /// synchronisers ([`ModuleBuilder::synchroniser`](crate::ModuleBuilder::synchroniser)).
    Gray,
    /// It does not change when it is read.
    Stable,
}

/// A signal of a module that goes from one clock to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockCrossing {
    /// The instance that reads it.
    pub instance: String,
    /// The port at which it is read.
    pub port: String,
    /// Reason why it may cross.
    pub kind: Crossing,
    /// The module's clock that it follows; `None` if it is an input of the module that only this reads.
    pub from: Option<String>,
    /// The module's clock with which it is read; `None` if it reaches no register.
    pub to: Option<String>,
}

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
