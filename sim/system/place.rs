//! Where an operation of the system takes place: a device, the bus or a link.

use serde::Serialize;

/// Who did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The GPU.
    Gpu,
    /// The bus, from host and GPU to the DIMMs.
    BusDown,
    /// The bus, from the DIMMs to host and GPU.
    BusUp,
    /// The link of a DIMM, towards it.
    LinkIn(u32),
    /// The link of a DIMM, away from it.
    LinkOut(u32),
    /// The core of a DIMM.
    Dimm(u32),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gpu => f.write_str("GPU"),
            Self::BusDown => f.write_str("bus to DIMMs"),
            Self::BusUp => f.write_str("bus from DIMMs"),
            Self::LinkIn(dimm) => write!(f, "link to DIMM {dimm}"),
            Self::LinkOut(dimm) => write!(f, "link from DIMM {dimm}"),
            Self::Dimm(dimm) => write!(f, "DIMM {dimm}"),
        }
    }
}
