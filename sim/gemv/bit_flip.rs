//! A deliberate error: one wrong bit in an input or result of the hardware. Tests, and a hidden option of the binary,
//! expect the check to find it. The reference never sees it.

/// Flips one bit, once, in the first product that has such a row and column or batch index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitFlip {
    /// A bit of a weight on its way to the unit.
    Weight {
        row: u32,
        col: u32,
        /// Bit, 0..16.
        bit: u32,
    },
    /// A bit of a cached key, in DRAM, before the first attention that sees it.
    Key {
        row: u32,
        /// Element of the key, all heads side by side.
        col: u32,
        /// Bit, 0..16.
        bit: u32,
    },
    /// A bit of a result on its way back.
    Result {
        row: u32,
        batch: u32,
        /// Bit, 0..16.
        bit: u32,
    },
}

impl std::fmt::Display for BitFlip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Weight { row, col, bit } => write!(f, "weight:{row}:{col}:{bit}"),
            Self::Key { row, col, bit } => write!(f, "key:{row}:{col}:{bit}"),
            Self::Result { row, batch, bit } => write!(f, "result:{row}:{batch}:{bit}"),
        }
    }
}

impl std::str::FromStr for BitFlip {
    type Err = String;

    /// `weight:ROW:COL:BIT`, `key:ROW:COL:BIT` or `result:ROW:BATCH:BIT`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` must be weight:ROW:COL:BIT, key:ROW:COL:BIT or result:ROW:BATCH:BIT with BIT in 0..=15"
            )
        };
        let mut parts = text.split(':');
        let kind = parts.next().unwrap_or_default();
        let numbers: Result<Vec<u32>, _> = parts.map(str::parse).collect();
        match (kind, numbers.as_deref()) {
            ("weight", Ok(&[row, col, bit])) if bit < 16 => Ok(Self::Weight { row, col, bit }),
            ("key", Ok(&[row, col, bit])) if bit < 16 => Ok(Self::Key { row, col, bit }),
            ("result", Ok(&[row, batch, bit])) if bit < 16 => Ok(Self::Result { row, batch, bit }),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_is_checked() {
        assert_eq!("weight:1:2:3".parse(), Ok(BitFlip::Weight { row: 1, col: 2, bit: 3 }));
        assert_eq!("result:4:5:15".parse(), Ok(BitFlip::Result { row: 4, batch: 5, bit: 15 }));
        for text in ["weight:1:2:3", "key:7:0:14", "result:4:5:15"] {
            assert_eq!(text.parse::<BitFlip>().unwrap().to_string(), text);
        }
        for bad in
            ["", "weight", "weight:1:2", "weight:1:2:16", "result:1:x:3", "row:1:2:3", "weight:1:2:3:4"]
        {
            assert!(bad.parse::<BitFlip>().is_err(), "{bad}");
        }
    }
}
