//! Changes an input: bits, bytes, ranges, numbers in text, words of other inputs.

use ndp_numerics::SplitMix64;

const MAX_BYTES: usize = 1 << 16;

/// Limits of formats and their neighbours.
const NUMBERS: [i128; 26] = [
    -1,
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    63,
    64,
    127,
    128,
    255,
    256,
    4095,
    65_535,
    65_536,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 53) + 1,
    i64::MAX as i128,
    u64::MAX as i128,
    i128::MAX,
];

/// Texts that mean something to some reader.
const TEXTS: [&str; 16] = [
    "nan", "inf", "-inf", "1e999", "1e-999", "0x", "0b1", "-0", "\"", "\n", "=", "[", "{}", "null",
    "\u{FFFD}", ",",
];

/// Draws below `bound`; 0 if that is 0.
fn below(random: &mut SplitMix64, bound: usize) -> usize {
    if bound == 0 { 0 } else { (random.next_u64() % bound as u64) as usize }
}

/// The input of one case of a run: first the unchanged seeds, then changed ones.
pub fn input(seeds: &[Vec<u8>], seed: u64, case: u64) -> Vec<u8> {
    match seeds.get(case as usize) {
        Some(as_it_is) => as_it_is.clone(),
        None => mutated(seeds, &mut SplitMix64::new(SplitMix64::new(seed ^ case.rotate_left(32)).next_u64())),
    }
}

/// One of `inputs` with one to eight changes.
pub fn mutated(inputs: &[Vec<u8>], random: &mut SplitMix64) -> Vec<u8> {
    let Some(first) = inputs.get(below(random, inputs.len())) else { return Vec::new() };
    let mut bytes = first.clone();
    for _ in 0..1 + below(random, 8) {
        let other = &inputs[below(random, inputs.len())];
        change(&mut bytes, other, random);
        bytes.truncate(MAX_BYTES.max(first.len()));
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut SplitMix64) {
    let at = below(random, bytes.len() + 1);
    let end = at + below(random, (bytes.len() - at + 1).min(64));
    match below(random, 12) {
        0 if at < bytes.len() => bytes[at] ^= 1 << below(random, 8),
        1 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
        2 => bytes.insert(at, random.next_u64() as u8),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let copy = bytes[at..end].to_vec();
            let to = below(random, bytes.len() + 1);
            drop(bytes.splice(to..to, copy));
        }
        5 => bytes.truncate(at),
        6 => {
            let from = below(random, other.len() + 1);
            let to = from + below(random, (other.len() - from + 1).min(256));
            drop(bytes.splice(at..end, other[from..to].iter().copied()));
        }
        7 | 8 => number(bytes, at, random),
        9 => {
            // A number as a field of a binary format.
            let value = NUMBERS[below(random, NUMBERS.len())].to_le_bytes();
            let width = [1, 2, 4, 8][below(random, 4)];
            for (byte, new) in bytes[at..].iter_mut().zip(&value[..width]) {
                *byte = *new;
            }
        }
        10 => line(bytes, at, other, random),
        _ => drop(bytes.splice(at..at, TEXTS[below(random, TEXTS.len())].bytes())),
    }
}

/// Replaces the next number in a text.
fn number(bytes: &mut Vec<u8>, at: usize, random: &mut SplitMix64) {
    let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit).map(|from| at + from) else { return };
    let digits = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let old =
        std::str::from_utf8(&bytes[from..from + digits]).ok().and_then(|text| text.parse::<i128>().ok());
    let new = match (below(random, 4), old) {
        (0, Some(old)) => old.saturating_add(1),
        (1, Some(old)) => old.saturating_mul(2),
        (2, _) => i128::from(random.next_u64() >> below(random, 64)),
        _ => NUMBERS[below(random, NUMBERS.len())],
    };
    drop(bytes.splice(from..from + digits, new.to_string().bytes()));
}

/// Inserts a line of another input before the line at `at`, or removes that line.
fn line(bytes: &mut Vec<u8>, at: usize, other: &[u8], random: &mut SplitMix64) {
    let begin = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| at + end + 1);
    if below(random, 2) == 0 {
        drop(bytes.drain(begin..end));
    } else {
        let lines: Vec<&[u8]> = other.split_inclusive(|byte| *byte == b'\n').collect();
        let line = lines.get(below(random, lines.len())).copied().unwrap_or_default();
        drop(bytes.splice(begin..begin, line.iter().copied()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_input_and_other_seeds_give_others() {
        let inputs = [b"name = 12\nother = 3\n".to_vec(), b"third = \"x\"\n".to_vec()];
        let of = |seed| mutated(&inputs, &mut SplitMix64::new(seed));
        assert_eq!(of(5), of(5));
        let mut all: Vec<Vec<u8>> = (0..1000).map(of).collect();
        all.sort();
        all.dedup();
        assert!(all.len() > 800, "{}", all.len());
        // Numbers of a text become limits of formats, as text.
        let has = |input: &&Vec<u8>| input.windows(10).any(|part| part == b"4294967296");
        assert!(all.iter().any(|input| has(&input)));
    }
}
