//! Names, directions and widths of ports, and the handles that stand for checked ones.
//!
//! A handle is made by looking a name up once. It is valid for every model of the same design, with or without
//! waves, and costs an index when used. Where the values live is left to `storage`.

use crate::error::Direction;
use ndp_files::{Result, failure};

/// One line of the port table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Name.
    pub name: &'static str,
    /// Direction.
    pub direction: Direction,
    /// Width in bits.
    pub width: u32,
}

/// What a handle consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Handle {
    /// Number of the design, so that a handle cannot be used with another one.
    pub design: u32,
    /// Number of the port.
    pub index: u32,
    /// Width in bits.
    pub width: u32,
}

/// An input port of one design, to be driven by the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InputPort(pub(super) Handle);

/// An output port of one design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutputPort(pub(super) Handle);

impl InputPort {
    /// Width in bits.
    pub fn width(self) -> u32 {
        self.0.width
    }

    /// Number of 32-bit words.
    pub fn words(self) -> usize {
        self.0.width.div_ceil(32) as usize
    }
}

impl OutputPort {
    /// Width in bits.
    pub fn width(self) -> u32 {
        self.0.width
    }

    /// Number of 32-bit words.
    pub fn words(self) -> usize {
        self.0.width.div_ceil(32) as usize
    }
}

/// Looks a port up; `table` is the port table of `design_name`, which has number `design`.
pub(super) fn find(
    table: &[PortInfo],
    (design, design_name): (u32, &str),
    name: &str,
    wanted: Direction,
    width: Option<u32>,
) -> Result<Handle> {
    let Some((index, port)) = (0..).zip(table).find(|(_, port)| port.name == name) else {
        let known = table.iter().filter(|port| port.direction == wanted);
        let known =
            known.map(|port| format!("{} [{}]", port.name, port.width)).collect::<Vec<_>>().join(", ");
        let (design, port) = (design_name.to_owned(), name.to_owned());
        return Err(failure!("`{design}` has no {wanted} port `{port}`; there are {known}"));
    };
    if port.direction != wanted {
        let (design, port, actual) = (design_name.to_owned(), name.to_owned(), port.direction);
        return Err(failure!("`{port}` of `{design}` is an {actual}, not an {wanted}"));
    }
    match width {
        Some(wanted) if wanted != port.width => {
            let (design, name) = (design_name.to_owned(), name.to_owned());
            Err(failure!("`{name}` of `{design}` is {} bits wide, not {wanted}", port.width))
        }
        _ => Ok(Handle { design, index, width: port.width }),
    }
}
