//! Operands and the fields that hold them, and the macros that turn tables of both into types.

use crate::instruction::{code_of, weights_of};
use crate::{Condition, Numbers};
use ndp_config::WeightFormat;

/// A value that `N` fields of the encoding hold together.
pub(crate) trait Operand<const N: usize>: Copy {
    /// The operand of these values.
    fn of(values: [u32; N]) -> Self;

    /// The values; `None` for a field without meaning.
    fn values(self) -> [Option<u32>; N];
}

macro_rules! plain {
    ($($type:ty: $word:ident => $value:expr;)*) => {
        $(impl Operand<1> for $type {
            fn of([$word]: [u32; 1]) -> Self {
                $value
            }

            fn values(self) -> [Option<u32>; 1] {
                [Some(self.into())]
            }
        })*
    };
}

plain! {
    u32: word => word;
    u16: word => word as Self;
    u8: word => word as Self;
    bool: word => word != 0;
}

impl Operand<1> for WeightFormat {
    fn of([code]: [u32; 1]) -> Self {
        weights_of(code).unwrap_or_default()
    }

    fn values(self) -> [Option<u32>; 1] {
        [Some(code_of(self))]
    }
}

/// The list of a product: whether there is one, and its first entry.
impl Operand<2> for Option<u32> {
    fn of([listed, list]: [u32; 2]) -> Self {
        (listed == 1).then_some(list)
    }

    fn values(self) -> [Option<u32>; 2] {
        [Some(self.is_some().into()), self]
    }
}

/// Whether they are in the list memory, and the first number or entry.
impl Operand<2> for Numbers {
    fn of([listed, first]: [u32; 2]) -> Self {
        if listed == 1 { Self::Listed(first) } else { Self::From(first) }
    }

    fn values(self) -> [Option<u32>; 2] {
        match self {
            Self::From(row) => [Some(0), Some(row)],
            Self::Listed(entry) => [Some(1), Some(entry)],
        }
    }
}

impl Operand<2> for Condition {
    fn of([threshold, magnitude]: [u32; 2]) -> Self {
        Self { threshold: Operand::of([threshold]), magnitude: magnitude == 1 }
    }

    fn values(self) -> [Option<u32>; 2] {
        [Some(self.threshold.into()), Some(self.magnitude.into())]
    }
}

/// The operands of instructions: type, fields, and meaning, which are the same in all instructions that have them.
macro_rules! operand_table {
    ($($name:ident: $type:ty = $($field:ident)+, $doc:literal;)*) => {
        macro_rules! operand {
            $(
                (type $name) => { $type };
                (field $name) => { $($field)+ };
                (fields $name) => { [$($field),+] };
                (doc $name) => { $doc };
            )*
        }
    };
}

operand_table! {
    tag: u32 = TAG, "The tag.";
    src: u32 = SRC, "First word of the source.";
    dst: u32 = DST, "First word of the destination.";
    cols: u32 = COLS, "Elements of a vector, and of a row.";
    batch: u32 = BATCH, "Vectors, 1..=16.";
    count: u32 = COUNT, "Words; entries of a list.";
    address: u32 = ADDRESS, "First burst: of the DIMM for vectors and lists, of every rank for rows and sums.";
    list: u32 = LIST, "First entry in the list memory, a multiple of 16.";
    row: u32 = ROW, "Row of the first vector; the others follow.";
    numbers: Numbers = LISTED ROW, "What the elements are called.";
    condition: Condition = THRESHOLD MAGNITUDE, "Which elements are selected.";
    scalar: u16 = SCALAR, "Bits of an FP16 value.";
    other: u32 = OTHER, "First word of the second block.";
}

macro_rules! find {
    ($wanted:ident: $($operand:ident = $fields:expr),*) => {
        $(
            if let Some(at) = $fields.iter().position(|field| *field == $wanted) {
                return Operand::values($operand)[at];
            }
        )*
    };
}

/// A struct of operands that several instructions have in common.
macro_rules! operands {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* $operand:ident: $type:ty = $($field:ident)+;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name {
            $($(#[$doc])* pub $operand: $type,)*
        }

        impl $name {
            const FIELDS: &'static [Field] = &[$($($field),+),*];

            fn of(get: &dyn Fn(Field) -> u32) -> Self {
                Self { $($operand: Operand::of([$($field),+].map(get)),)* }
            }

            fn value(&self, field: Field) -> Option<u32> {
                let Self { $($operand),* } = *self;
                $crate::table::find!(field: $($operand = [$($field),+]),*);
                None
            }
        }
    };
}

/// The fields of an instruction, by its operands in the table or in the order that the table gives.
macro_rules! fields_of {
    () => {
        &[]
    };
    (($type:ident)) => {
        $type::FIELDS
    };
    ({ $($operand:ident),* }) => {
        &[$($crate::table::operand!(field $operand)),*]
    };
    ($operands:tt as [$($field:ident),+]) => {
        &[$($field),+]
    };
}

/// [`Opcode`](crate::Opcode), [`Activation`](crate::Activation) and [`Instruction`](crate::Instruction) with all that
/// follows from codes, mnemonics and operands, in the order of codes. Activations share operands and are variants of
/// the operation.
macro_rules! instructions {
    (
        first { $($first:tt)* }
        activations { $($activations:tt)* }
        last { $($last:tt)* }
    ) => {
        $crate::table::instructions! {
            all { $($first)* $($activations)* $($last)* }
            records { $($first)* $($last)* }
            activations { $($activations)* }
        }
    };
    (
        all {
            $($(#[$doc:meta])* $opcode:ident = $code:literal, $mnemonic:literal $(, $shape:tt $(as $order:tt)?)?;)*
        }
        records {
            $(
                $(#[$record_doc:meta])*
                $record:ident = $record_code:literal, $record_name:literal
                $(, ($type:ident))?
                $(, { $($operand:ident),* } $(as $record_order:tt)?)?;
            )*
        }
        activations {
            $(
                $(#[$activation_doc:meta])*
                $activation:ident = $activation_code:literal, $activation_name:literal
                $(, { $extra:ident })?;
            )*
        }
    ) => {
        /// Operation of an instruction; the discriminant is its code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Opcode {
            $($(#[$doc])* $opcode = $code,)*
        }

        impl Opcode {
            /// All opcodes, by code.
            pub const ALL: [Self; [$($code),*].len()] = [$(Self::$opcode),*];

            /// Name in programs.
            pub const fn mnemonic(self) -> &'static str {
                match self {
                    $(Self::$opcode => $mnemonic,)*
                }
            }

            /// The fields that it names; all others are 0.
            pub const fn fields(self) -> &'static [Field] {
                match self {
                    $(Self::$record => $crate::table::fields_of!(
                        $(($type))? $({ $($operand),* } $(as $record_order)?)?
                    ),)*
                    $(Self::$activation => {
                        &[SRC, DST, COLS, BATCH, HEADS, $($crate::table::operand!(field $extra))?]
                    })*
                }
            }
        }

        /// Operation of the activation unit on each element `x` of a vector block; `other` is the first word of a
        /// second block of the same shape, `y` its element.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Activation {
            $(
                $(#[$activation_doc])*
                $activation $({
                    #[doc = $crate::table::operand!(doc $extra)]
                    $extra: $crate::table::operand!(type $extra)
                })?,
            )*
        }

        impl Activation {
            /// Each of them, by code, with operands of these values.
            pub fn all(get: &dyn Fn(Field) -> u32) -> impl Iterator<Item = Self> + use<> {
                [$(Self::$activation $({
                    $extra: Operand::of($crate::table::operand!(fields $extra).map(get))
                })?),*].into_iter()
            }

            /// Opcode of the operation.
            pub fn opcode(self) -> Opcode {
                match self {
                    $(Self::$activation { .. } => Opcode::$activation,)*
                }
            }

            fn value(self, field: Field) -> Option<u32> {
                match self {
                    $($(Self::$activation { $extra } if field == $crate::table::operand!(field $extra) => {
                        Some($extra.into())
                    })?)*
                    _ => None,
                }
            }
        }

        /// An instruction with its operands.
        ///
        /// ```
        /// use ndp_isa::{Instruction, parse};
        /// let load = Instruction::Load { dst: 0, cols: 4096, batch: 4, address: 0x1000 };
        /// assert_eq!(load.to_string(), "load dst=0, cols=4096, batch=4, address=0x1000");
        /// assert_eq!(load.encode(), 0x0000_1000_0200_0610);
        /// assert_eq!(parse(&load.to_string()).unwrap().words(), [load.encode()]);
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Instruction {
            $(
                $(#[$record_doc])*
                $record $(($type))? $({
                    $(
                        #[doc = $crate::table::operand!(doc $operand)]
                        $operand: $crate::table::operand!(type $operand),
                    )*
                })?,
            )*
            /// The activation unit: vector block (cols, batch * heads) at src, and perhaps another, to dst.
            Activate {
                /// Operation of the unit.
                operation: Activation,
                /// First word of the block.
                src: u32,
                /// First word of the result.
                dst: u32,
                /// Elements of a vector.
                cols: u32,
                /// Vectors for each head, 1..=16.
                batch: u32,
                /// Heads, a power of two.
                heads: u32,
            },
        }

        impl Instruction {
            /// Instruction of an opcode and field values; asks only for its fields. `BATCH` and `HEADS` are numbers,
            /// not encodings.
            pub(crate) fn of(opcode: Opcode, get: &dyn Fn(Field) -> u32) -> Self {
                let activate = |operation| {
                    let [src, dst, cols, batch, heads] = [SRC, DST, COLS, BATCH, HEADS].map(get);
                    Self::Activate { operation, src, dst, cols, batch, heads }
                };
                match opcode {
                    $(Opcode::$record => Self::$record
                        $(($type::of(get)))?
                        $({ $($operand: Operand::of($crate::table::operand!(fields $operand).map(get)),)* })?,)*
                    $(Opcode::$activation => activate(Activation::$activation
                        $({ $extra: Operand::of($crate::table::operand!(fields $extra).map(get)) })?),)*
                }
            }

            /// Opcode of the instruction.
            pub fn opcode(&self) -> Opcode {
                match self {
                    $(Self::$record { .. } => Opcode::$record,)*
                    Self::Activate { operation, .. } => operation.opcode(),
                }
            }

            /// Value of a field; `None` if the instruction does not name it. `BATCH` and `HEADS` are numbers, not
            /// encodings. `LIST` is `None` for unlisted rows; `ROW` of a `select` may be a list entry.
            pub fn value(&self, field: Field) -> Option<u32> {
                if field == OPCODE {
                    return Some(self.opcode() as u32);
                }
                match *self {
                    $($(Self::$record(common @ $type { .. }) => return common.value(field),)?)*
                    $($(Self::$record { $($operand),* } => {
                        $crate::table::find!(field: $($operand = $crate::table::operand!(fields $operand)),*);
                    })?)*
                    Self::Activate { operation, src, dst, cols, batch, heads } => {
                        $crate::table::find!(
                            field: src = [SRC], dst = [DST], cols = [COLS], batch = [BATCH], heads = [HEADS]
                        );
                        return operation.value(field);
                    }
                    _ => {}
                }
                None
            }
        }
    };
}

// `operand!` is defined by another macro and has no other path.
#[allow(clippy::single_component_path_imports)]
pub(crate) use operand;
pub(crate) use {fields_of, find, instructions, operands};
