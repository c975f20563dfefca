//! Expressions of any width as words: the arithmetic of [`crate::Bits`], carry by carry.

use super::graph::{Graph, Id, low_mask};
use super::{limb_bits, limbs};
use std::rc::Rc;

/// One bit, or words of 32 bits; the last word has zeros above the width.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub width: u32,
    pub limbs: Rc<[Id]>,
}

impl Value {
    pub fn new(width: u32, limbs: impl Into<Rc<[Id]>>) -> Self {
        Self { width, limbs: limbs.into() }
    }

    pub fn bit(bit: Id) -> Self {
        Self::new(1, [bit])
    }
}

impl Graph {
    pub(super) fn literal(&mut self, value: u128, width: u32) -> Value {
        if width == 1 {
            return Value::bit(self.truth(value == 1));
        }
        let limbs: Vec<Id> = (0..limbs(width))
            .map(|limb| self.word(value.checked_shr(32 * limb).unwrap_or(0) as u32))
            .collect();
        Value::new(width, limbs)
    }

    /// The words; a single bit counts as a word.
    pub(super) fn words(&mut self, value: &Value) -> Vec<Id> {
        match value.width {
            1 => vec![self.flag(value.limbs[0])],
            _ => value.limbs.to_vec(),
        }
    }

    fn trimmed(&mut self, width: u32, mut words: Vec<Id>) -> Value {
        if width == 1 {
            return Value::bit(self.test(words[0], 0));
        }
        let kept = self.word(low_mask(limb_bits(width, limbs(width) - 1)));
        if let Some(last) = words.last_mut() {
            *last = self.and(*last, kept);
        }
        Value::new(width, words)
    }

    pub(super) fn inverted(&mut self, a: &Value) -> Value {
        if a.width == 1 {
            return Value::bit(self.not(a.limbs[0]));
        }
        let words = (0..).zip(a.limbs.iter()).map(|(limb, word)| {
            let all = self.word(low_mask(limb_bits(a.width, limb)));
            self.xor(*word, all)
        });
        let words: Vec<Id> = words.collect();
        Value::new(a.width, words)
    }

    pub(super) fn bitwise(&mut self, a: &Value, b: &Value, op: impl Fn(&mut Self, Id, Id) -> Id) -> Value {
        let words: Vec<Id> = a.limbs.iter().zip(b.limbs.iter()).map(|(a, b)| op(self, *a, *b)).collect();
        Value::new(a.width, words)
    }

    pub(super) fn any(&mut self, a: &Value) -> Id {
        if a.width == 1 {
            return a.limbs[0];
        }
        let all = a.limbs.iter().skip(1).fold(a.limbs[0], |all, word| self.or(all, *word));
        let zero = self.word(0);
        let none = self.equal(all, zero);
        self.not(none)
    }

    pub(super) fn all(&mut self, a: &Value) -> Id {
        if a.width == 1 {
            return a.limbs[0];
        }
        let mut all = self.truth(true);
        for (limb, word) in (0..).zip(a.limbs.iter()) {
            let ones = self.word(low_mask(limb_bits(a.width, limb)));
            let here = self.equal(*word, ones);
            all = self.and(all, here);
        }
        all
    }

    fn add_with_carry(&mut self, a: Id, b: Id, carry: Option<Id>) -> (Id, Id) {
        let partial = self.add(a, b);
        let out = self.less(partial, a);
        let Some(carry) = carry else { return (partial, out) };
        let carry = self.flag(carry);
        let whole = self.add(partial, carry);
        let again = self.less(whole, partial);
        (whole, self.or(out, again))
    }

    pub(super) fn sum(&mut self, a: &Value, b: &Value) -> Value {
        let (x, y) = (self.words(a), self.words(b));
        let (mut words, mut carry) = (Vec::new(), None);
        for (a, b) in x.into_iter().zip(y) {
            let (whole, out) = self.add_with_carry(a, b, carry);
            carry = Some(out);
            words.push(whole);
        }
        self.trimmed(a.width, words)
    }

    pub(super) fn difference(&mut self, a: &Value, b: &Value) -> Value {
        let (x, y) = (self.words(a), self.words(b));
        let (mut words, mut borrow) = (Vec::new(), None);
        for (a, b) in x.into_iter().zip(y) {
            let mut whole = self.sub(a, b);
            let mut out = self.less(a, b);
            if let Some(borrow) = borrow {
                let borrow = self.flag(borrow);
                let again = self.less(whole, borrow);
                whole = self.sub(whole, borrow);
                out = self.or(out, again);
            }
            borrow = Some(out);
            words.push(whole);
        }
        self.trimmed(a.width, words)
    }

    pub(super) fn product(&mut self, a: &Value, b: &Value) -> Value {
        let (x, y) = (self.words(a), self.words(b));
        let zero = self.word(0);
        let mut words = vec![zero; x.len()];
        for (i, a) in x.iter().enumerate() {
            for (j, b) in y.iter().enumerate().take(x.len() - i) {
                let (low, high) = self.mul(*a, *b);
                let mut carry = None;
                for (at, addend) in
                    (i + j..words.len()).zip([low, high].into_iter().chain(std::iter::repeat(zero)))
                {
                    let (whole, out) = self.add_with_carry(addend, words[at], carry);
                    carry = Some(out);
                    words[at] = whole;
                }
            }
        }
        self.trimmed(a.width, words)
    }

    pub(super) fn same(&mut self, a: &Value, b: &Value) -> Id {
        if a.width == 1 {
            return self.equal(a.limbs[0], b.limbs[0]);
        }
        let mut all = self.truth(true);
        for (a, b) in a.limbs.iter().zip(b.limbs.iter()) {
            let here = self.equal(*a, *b);
            all = self.and(all, here);
        }
        all
    }

    pub(super) fn below(&mut self, a: &Value, b: &Value) -> Id {
        let mut below = self.truth(false);
        for (a, b) in a.limbs.iter().zip(b.limbs.iter()) {
            let (less, same) = (self.less(*a, *b), self.equal(*a, *b));
            let still = self.and(same, below);
            below = self.or(less, still);
        }
        below
    }

    pub(super) fn choose(&mut self, c: Id, a: &Value, b: &Value) -> Value {
        self.new_choice();
        let words: Vec<Id> =
            a.limbs.iter().zip(b.limbs.iter()).map(|(a, b)| self.select(c, *a, *b)).collect();
        Value::new(a.width, words)
    }

    pub(super) fn slice(&mut self, a: &Value, low: u32, width: u32) -> Value {
        if width == a.width {
            return a.clone();
        }
        if width == 1 {
            return Value::bit(self.test(a.limbs[(low / 32) as usize], low % 32));
        }
        let mut words = Vec::new();
        for limb in 0..limbs(width) {
            let (bits, from) = (limb_bits(width, limb), low + 32 * limb);
            let (at, shift) = ((from / 32) as usize, from % 32);
            let here = bits.min(32 - shift);
            let mut word = self.field(a.limbs[at], shift, here);
            if here < bits {
                let rest = self.field(a.limbs[at + 1], 0, bits - here);
                let by = self.word(here);
                let rest = self.shl(rest, by);
                word = self.or(word, rest);
            }
            words.push(word);
        }
        Value::new(width, words)
    }

    /// Concatenation, least significant part first.
    pub(super) fn concatenation(&mut self, parts: &[Value]) -> Value {
        if let [one] = parts {
            return one.clone();
        }
        let width = parts.iter().map(|part| part.width).sum();
        let zero = self.word(0);
        let mut words = vec![zero; limbs(width) as usize];
        let mut low = 0;
        for part in parts {
            for (limb, word) in (0..).zip(self.words(part)) {
                let bits = limb_bits(part.width, limb);
                let (at, shift) = (((low + 32 * limb) / 32) as usize, (low + 32 * limb) % 32);
                // The rest goes to the next word.
                let here = bits.min(32 - shift);
                let (kept, by) = (self.field(word, 0, here), self.word(shift));
                let placed = self.shl(kept, by);
                words[at] = self.or(words[at], placed);
                if here < bits {
                    let rest = self.field(word, here, bits - here);
                    words[at + 1] = self.or(words[at + 1], rest);
                }
            }
            low += part.width;
        }
        Value::new(width, words)
    }

    pub(super) fn repeated(&mut self, count: u32, part: &Value) -> Value {
        if part.width > 1 || count == 1 {
            return self.concatenation(&vec![part.clone(); count as usize]);
        }
        let mask = self.mask(part.limbs[0]);
        let words: Vec<Id> = (0..limbs(count))
            .map(|limb| {
                let kept = self.word(low_mask(limb_bits(count, limb)));
                self.and(mask, kept)
            })
            .collect();
        Value::new(count, words)
    }

    /// Shifts by a constant amount, zeros shifted in.
    fn moved(&mut self, a: &Value, left: bool, by: u32) -> Value {
        if by >= a.width {
            return self.literal(0, a.width);
        }
        let zeros = self.literal(0, by);
        let kept = self.slice(a, if left { 0 } else { by }, a.width - by);
        let parts = if left { [zeros, kept] } else { [kept, zeros] };
        self.concatenation(&parts)
    }

    /// Shifts by a variable amount, zeros shifted in; an amount of the width or more gives zero.
    pub(super) fn shifted(&mut self, a: &Value, left: bool, amount: &Value) -> Value {
        if let [word] = *a.limbs
            && a.width > 1
            && let [by] = *self.words(amount)
        {
            let (low, bound, zero) = (self.field(by, 0, 5), self.word(32), self.word(0));
            let shifted = if left { self.shl(word, low) } else { self.shr(word, low) };
            let fits = self.less(by, bound);
            let shifted = self.select(fits, shifted, zero);
            return self.trimmed(a.width, vec![shifted]);
        }
        let mut value = a.clone();
        for bit in 0..amount.width {
            let chosen = self.slice(amount, bit, 1).limbs[0];
            let by = 1_u32.checked_shl(bit).unwrap_or(u32::MAX);
            let further = self.moved(&value, left, by);
            value = self.choose(chosen, &further, &value);
        }
        value
    }
}
