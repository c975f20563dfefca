//! The assembler: text to [`Program`].
//!
//! One instruction or directive per line. Instructions have comma-separated `name=value` pairs, directives an address
//! and comma-separated values, or space-separated `name=value` pairs. Nothing is checked against a design.

use crate::instruction::code_of;
use crate::instruction::fields::{
    ADDRESS, BATCH, COLS, COUNT, DST, FROM, HEADS, LIST, LISTED, MAGNITUDE, NODE, OTHER, RANKS, ROW, SCALAR,
    SELECTED, SHARED, SLOT, SRC, TAG, THRESHOLD, WEIGHTS,
};
use ndp_config::{WeightFormat, nearest};

use crate::literal::f16_from_decimal;
use crate::{Code, Data, Dump, Field, Instruction, IsaError, Opcode, Program, RandomKind};

/// Largest burst addresses of a DIMM and a rank.
const MAX_ADDRESS: u64 = ADDRESS.max();
const MAX_RANK_ADDRESS: u64 = (1 << 27) - 1;

/// Fields with a number, in the order in which missing ones are reported.
const NEEDED: [Field; 18] = [
    SRC, DST, OTHER, COLS, BATCH, HEADS, COUNT, ROW, SCALAR, ADDRESS, LIST, SELECTED, SHARED, NODE, RANKS,
    SLOT, THRESHOLD, MAGNITUDE,
];

/// Reads a program; fails at the first line that is neither instruction nor directive.
///
/// ```
/// let program = ndp_isa::parse("zero dst=3, count=8 # clear\nround src=3, dst=3, cols=64\n").unwrap();
/// assert_eq!(program.code.len(), 2);
/// let error = ndp_isa::parse("\nzero dst=3, coutn=8").unwrap_err();
/// assert_eq!(error.to_string(), "line 2: found \"coutn=8\", expected one of dst, count; did you mean 'count'?");
/// ```
pub fn parse(text: &str) -> Result<Program, IsaError> {
    parse_with_lines(text).map(|(program, _)| program)
}

/// Reads a program, and the line, from 1, of each instruction.
pub fn parse_with_lines(text: &str) -> Result<(Program, Vec<usize>), IsaError> {
    let (mut program, mut lines) = (Program::default(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let at = Line { number: index + 1 };
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (head, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match head {
            ".word" => program.code.push(Code::Word(at.word(rest)?)),
            ".dump" => {
                let (address, rest) = at.address(rest, MAX_ADDRESS)?;
                let [bursts] = at.pairs(rest.split_whitespace(), [("bursts", 1 << 29)])?;
                program.dumps.push(Dump { address, bursts: at.needed("bursts", bursts)? as u32 });
            }
            _ if head.starts_with('.') => program.data.push(at.data(head, rest)?),
            _ => program.code.push(Code::Instruction(at.instruction(head, rest)?)),
        }
        lines.resize(program.code.len(), at.number);
    }
    Ok((program, lines))
}

/// A number, decimal or hexadecimal with `0x`.
fn number(text: &str) -> Option<u128> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // `from_str_radix` by itself would take a sign.
    let plain = digits.bytes().all(|digit| digit.is_ascii_alphanumeric());
    if plain { u128::from_str_radix(digits, radix).ok() } else { None }
}

/// A line's number, for messages.
#[derive(Clone, Copy)]
struct Line {
    number: usize,
}

impl Line {
    fn error(self, token: &str, expected: impl Into<String>) -> IsaError {
        IsaError { line: self.number, token: token.to_owned(), expected: expected.into() }
    }

    /// Error of an unknown name in the quoted token.
    fn unknown(self, (token, name): (&str, &str), known: &[&str], more: &str) -> IsaError {
        self.error(token, format!("one of {}{more}{}", known.join(", "), nearest(name, known)))
    }

    /// A number up to `max`; messages quote `token`.
    fn limited(self, token: &str, text: &str, max: u128) -> Result<u128, IsaError> {
        match number(text) {
            Some(value) if value <= max => Ok(value),
            _ => Err(self.error(token, format!("a number 0..={max}, decimal or 0x hexadecimal"))),
        }
    }

    fn word(self, text: &str) -> Result<u128, IsaError> {
        self.limited(text, text, u128::MAX)
    }

    /// The address of a directive, and the rest of its text.
    fn address(self, text: &str, max: u64) -> Result<(u32, &str), IsaError> {
        let (address, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        Ok((self.limited(address, address, max.into())? as u32, rest.trim()))
    }

    /// `name=value` pairs in any order, each at most once and at most its maximum.
    fn pairs<'a, const N: usize>(
        self,
        tokens: impl Iterator<Item = &'a str>,
        known: [(&str, u64); N],
    ) -> Result<[Option<u64>; N], IsaError> {
        let mut values = [None; N];
        for token in tokens {
            let token = token.trim();
            let (name, value) = token.split_once('=').unwrap_or((token, ""));
            let Some(place) = known.iter().position(|(known, _)| *known == name.trim_end()) else {
                return Err(self.unknown((token, name.trim_end()), &known.map(|(name, _)| name), ""));
            };
            if values[place].is_some() {
                return Err(self.error(token, format!("{} once", known[place].0)));
            }
            values[place] = Some(self.limited(token, value.trim_start(), known[place].1.into())? as u64);
        }
        Ok(values)
    }

    fn needed(self, name: &str, value: Option<u64>) -> Result<u64, IsaError> {
        value.ok_or_else(|| self.error("", format!("{name}=")))
    }

    fn instruction(self, head: &str, rest: &str) -> Result<Instruction, IsaError> {
        let Some(opcode) = Opcode::ALL.into_iter().find(|opcode| opcode.mnemonic() == head) else {
            return Err(self.unknown((head, head), &Opcode::ALL.map(Opcode::mnemonic), ", or a directive"));
        };
        match opcode.fields() {
            [] if !rest.is_empty() => return Err(self.error(rest, "nothing")),
            [] => return Ok(Instruction::of(opcode, &|_| 0)),
            [TAG] => {
                let tag = self.limited(rest, rest, TAG.max().into())? as u32;
                return Ok(Instruction::of(opcode, &|_| tag));
            }
            _ => {}
        }
        let (product, selects) = (opcode.fields().contains(&SELECTED), opcode == Opcode::Select);
        let mut named: Vec<Field> =
            opcode.fields().iter().copied().filter(|field| *field != LISTED).collect();
        named.extend(selects.then_some(FROM));
        let mut values = vec![None; named.len()];
        let mut weights = None;
        for token in rest.split(',').map(str::trim) {
            let name = token.split('=').next().unwrap_or_default().trim_end();
            let Some(place) = named.iter().position(|field| field.name == name) else {
                let names: Vec<&str> = named.iter().map(|field| field.name).collect();
                return Err(self.unknown((token, name), &names, ""));
            };
            if named[place] == WEIGHTS {
                if weights.is_some() {
                    return Err(self.error(token, format!("{name} once")));
                }
                weights = Some(self.weights(token)?);
                continue;
            }
            let max = match named[place] {
                BATCH => BATCH.max() + 1,
                HEADS => 1 << HEADS.max(),
                field => field.max(),
            };
            let [value] = self.pairs([token].into_iter(), [(name, max)])?;
            if values[place].is_some() {
                return Err(self.error(token, format!("{name} once")));
            }
            if named[place] == BATCH && value == Some(0) {
                return Err(self.error(token, format!("a number 1..={max}, decimal or 0x hexadecimal")));
            }
            if named[place] == HEADS && !value.is_some_and(u64::is_power_of_two) {
                return Err(self.error(token, format!("a power of two 1..={max}")));
            }
            values[place] = value;
        }
        // Fields of the instruction have to be there unless they are optional.
        let get = |field: Field| match named.iter().position(|named| *named == field) {
            None => Ok(0),
            Some(place) => match (field, values[place]) {
                (BATCH | HEADS, None) => Ok(1),
                (LIST | SELECTED | SHARED, None) if product => Ok(0),
                (ROW | FROM | THRESHOLD | MAGNITUDE, None) if selects => Ok(0),
                (field, value) => self.needed(field.name, value).map(|value| value as u32),
            },
        };
        let said =
            |field: Field| named.iter().zip(&values).any(|(of, value)| *of == field && value.is_some());
        let listed = said(if selects { FROM } else { LIST });
        if said(FROM) && said(ROW) {
            return Err(self.error("row=", "row or from, not both"));
        }
        let mut operands = Vec::with_capacity(NEEDED.len());
        for field in NEEDED {
            operands.push((field, get(if field == ROW && said(FROM) { FROM } else { field })?));
        }
        operands.push((LISTED, listed.into()));
        operands.push((WEIGHTS, code_of(weights.unwrap_or_default())));
        let value = |field| operands.iter().find(|(of, _)| *of == field).map_or(0, |(_, value)| *value);
        Ok(Instruction::of(opcode, &value))
    }

    fn data(self, head: &str, rest: &str) -> Result<Data, IsaError> {
        let values = |text: &'static str, rest: &str| -> Result<Vec<String>, IsaError> {
            if rest.is_empty() {
                return Err(self.error("", text));
            }
            Ok(rest.split(',').map(|value| value.trim().to_owned()).collect())
        };
        match head {
            ".f16" => {
                let (address, rest) = self.address(rest, MAX_ADDRESS)?;
                let expected =
                    "a decimal number below 65520 in magnitude, inf, -inf, nan, or 0x and up to 16 bits";
                let values = values(expected, rest)?.into_iter().map(|text| {
                    let bits = text.starts_with("0x").then(|| number(&text)).flatten();
                    let bits = bits.and_then(|bits| u16::try_from(bits).ok());
                    let overflows = |bits: &u16| bits & 0x7FFF == 0x7C00 && !text.ends_with("inf");
                    let decimal = || f16_from_decimal(&text).filter(|bits| !overflows(bits));
                    bits.or_else(decimal).ok_or_else(|| self.error(&text, expected))
                });
                Ok(Data::F16 { address, values: values.collect::<Result<_, _>>()? })
            }
            ".u32" => {
                let (address, rest) = self.address(rest, MAX_ADDRESS)?;
                let values = values("numbers", rest)?.into_iter();
                let values = values.map(|text| self.limited(&text, &text, u32::MAX.into()).map(|v| v as u32));
                Ok(Data::U32 { address, values: values.collect::<Result<_, _>>()? })
            }
            ".random" => {
                let (address, rest) = self.address(rest, MAX_ADDRESS)?;
                let (rest, kind) = self.kind(rest)?;
                let [bursts, seed] =
                    self.pairs(rest.into_iter(), [("bursts", 1 << 29), ("seed", u64::MAX)])?;
                let (bursts, seed) = (self.needed("bursts", bursts)? as u32, self.needed("seed", seed)?);
                Ok(Data::Random { address, bursts, seed, kind })
            }
            ".matrix" => {
                let (address, rest) = self.address(rest, MAX_RANK_ADDRESS)?;
                let (rest, kind) = self.kind(rest)?;
                let (formats, rest): (Vec<&str>, Vec<&str>) =
                    rest.into_iter().partition(|token| token.starts_with("weights="));
                let weights = match formats[..] {
                    [] => WeightFormat::Fp16,
                    [token] => self.weights(token)?,
                    [_, token, ..] => return Err(self.error(token, "weights once")),
                };
                let known = [
                    ("rows", COUNT.max()),
                    ("cols", COLS.max()),
                    ("seed", u64::MAX),
                    (SHARED.name, SHARED.max()),
                ];
                let [rows, cols, seed, shared] = self.pairs(rest.into_iter(), known)?;
                let shared = shared == Some(1);
                if shared && weights == WeightFormat::Fp16 {
                    return Err(self.error("shared=1", "weights=int8 or weights=int4 with it"));
                }
                let (rows, cols) = (self.needed("rows", rows)? as u32, self.needed("cols", cols)? as u32);
                if rows == 0 || cols == 0 {
                    return Err(self.error(&format!("rows={rows} cols={cols}"), "at least one of each"));
                }
                let seed = self.needed("seed", seed)?;
                Ok(Data::Matrix { address, rows, cols, weights, shared, seed, kind })
            }
            _ => {
                let known = [".word", ".f16", ".u32", ".random", ".matrix", ".dump"];
                Err(self.unknown((head, head), &known, ""))
            }
        }
    }

    /// A format of weights, by its name.
    fn weights(self, token: &str) -> Result<WeightFormat, IsaError> {
        let name = token.split_once('=').map(|(_, name)| name.trim());
        let named = name.and_then(WeightFormat::named);
        let names = WeightFormat::ALL.map(WeightFormat::name).join(", ");
        named.ok_or_else(|| self.error(token, format!("weights= one of {names}")))
    }

    /// Takes `kind=` out of the pairs.
    fn kind(self, rest: &str) -> Result<(Vec<&str>, RandomKind), IsaError> {
        let (kinds, others): (Vec<&str>, Vec<&str>) =
            rest.split_whitespace().partition(|token| token.starts_with("kind="));
        let [token] = kinds[..] else {
            return Err(self.error(kinds.get(1).unwrap_or(&""), "kind= once"));
        };
        let kind = RandomKind::ALL.into_iter().find(|kind| token.strip_prefix("kind=") == Some(kind.name()));
        let names = RandomKind::ALL.map(RandomKind::name).join(", ");
        Ok((others, kind.ok_or_else(|| self.error(token, format!("kind= one of {names}")))?))
    }
}
