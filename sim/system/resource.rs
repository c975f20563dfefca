//! The place of an operation: a device, the bus, a memory channel or a link.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    Gpu,
    /// The bus, from the GPU to the host.
    BusDown,
    /// The bus, from the host to the GPU.
    BusUp,
    /// A memory channel, in both directions.
    Channel(u32),
    /// The link of a DIMM, towards it.
    LinkIn(u32),
    /// The link of a DIMM, away from it.
    LinkOut(u32),
    Dimm(u32),
    Host,
    Ssd,
}

impl Resource {
    pub const GROUPS: [&str; 7] = ["GPU", "DIMMs", "links", "channels", "bus", "host", "SSD"];

    pub fn group(self) -> &'static str {
        match self {
            Self::Gpu => "GPU",
            Self::Dimm(_) => "DIMMs",
            Self::LinkIn(_) | Self::LinkOut(_) => "links",
            Self::Channel(_) => "channels",
            Self::BusDown | Self::BusUp => "bus",
            Self::Host => "host",
            Self::Ssd => "SSD",
        }
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gpu => f.write_str("GPU"),
            Self::BusDown => f.write_str("bus from the GPU"),
            Self::BusUp => f.write_str("bus to the GPU"),
            Self::Channel(channel) => write!(f, "channel {channel}"),
            Self::LinkIn(dimm) => write!(f, "link to DIMM {dimm}"),
            Self::LinkOut(dimm) => write!(f, "link from DIMM {dimm}"),
            Self::Dimm(dimm) => write!(f, "DIMM {dimm}"),
            Self::Host => f.write_str("host"),
            Self::Ssd => f.write_str("SSD"),
        }
    }
}
