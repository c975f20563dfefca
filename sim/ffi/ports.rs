//! Names, directions and widths of ports, and the handles that stand for checked ones.
//!
//! A handle is made by looking a name up once. It is valid for every model of the same design, with or without waves,
//! and costs an index when used.

use ndp_files::{Result, failure};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    pub name: &'static str,
    pub output: bool,
    /// Width in bits.
    pub width: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Handle {
    /// Keeps a handle from being used with another design.
    pub design: u32,
    pub index: u32,
    pub width: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InputPort(pub(super) Handle);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutputPort(pub(super) Handle);

macro_rules! widths {
    ($($port:ident)+) => {$(
        impl $port {
            pub fn width(self) -> u32 {
                self.0.width
            }

            /// Number of 32-bit words.
            pub fn words(self) -> usize {
                self.0.width.div_ceil(32) as usize
            }
        }
    )+};
}

widths!(InputPort OutputPort);

/// `table` is the port table of `design_name`, which has number `design`.
pub(super) fn find(
    table: &[PortInfo],
    (design, design_name): (u32, &str),
    name: &str,
    output: bool,
    width: Option<u32>,
) -> Result<Handle> {
    let kind = |output: bool| if output { "output" } else { "input" };
    let wanted = kind(output);
    let Some((index, port)) = (0..).zip(table).find(|(_, port)| port.name == name) else {
        let known = table.iter().filter(|port| port.output == output);
        let known =
            known.map(|port| format!("{} [{}]", port.name, port.width)).collect::<Vec<_>>().join(", ");
        return Err(failure!("`{design_name}` has no {wanted} port `{name}`; there are {known}"));
    };
    if port.output != output {
        return Err(failure!("`{name}` of `{design_name}` is an {}, not an {wanted}", kind(port.output)));
    }
    match width {
        Some(wanted) if wanted != port.width => {
            Err(failure!("`{name}` of `{design_name}` is {} bits wide, not {wanted}", port.width))
        }
        _ => Ok(Handle { design, index, width: port.width }),
    }
}
