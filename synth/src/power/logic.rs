//! Boolean functions of Liberty: read, and evaluated for 64 cycles at a time.

/// A function of pins, numbered by the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Logic {
    Constant(bool),
    Pin(usize),
    Not(Box<Logic>),
    And(Box<Logic>, Box<Logic>),
    Or(Box<Logic>, Box<Logic>),
    Xor(Box<Logic>, Box<Logic>),
}

/// Characters of a function that an error quotes.
const SHOWN: usize = 200;
/// Most operators and brackets: bounds the depth of the tree. Real cells have fewer than 100.
const LONGEST: usize = 1000;

impl Logic {
    /// `pin` gives the number of a name.
    ///
    /// # Errors
    /// An unexpected text, an unknown pin, or too many operators.
    pub fn parse(text: &str, pin: &dyn Fn(&str) -> Option<usize>) -> Result<Self, String> {
        let mut reader = Reader { rest: text.trim(), pin, left: LONGEST };
        let shown = || match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text.to_owned(),
        };
        let logic = reader.or().map_err(|reason| format!("function '{}': {reason}", shown()))?;
        match reader.rest.is_empty() {
            true => Ok(logic),
            false => Err(format!("function '{}': '{}' is left over", shown(), reader.rest)),
        }
    }

    /// Values in 64 cycles, given each pin's values.
    pub fn evaluate(&self, pins: &[u64]) -> u64 {
        match self {
            Self::Constant(one) => {
                if *one {
                    u64::MAX
                } else {
                    0
                }
            }
            Self::Pin(pin) => pins[*pin],
            Self::Not(a) => !a.evaluate(pins),
            Self::And(a, b) => a.evaluate(pins) & b.evaluate(pins),
            Self::Or(a, b) => a.evaluate(pins) | b.evaluate(pins),
            Self::Xor(a, b) => a.evaluate(pins) ^ b.evaluate(pins),
        }
    }

    /// Replaces a pin by another function.
    pub fn with(&self, pin: usize, by: &Logic) -> Logic {
        let part = |part: &Logic| Box::new(part.with(pin, by));
        match self {
            Self::Pin(own) if *own == pin => by.clone(),
            Self::Constant(_) | Self::Pin(_) => self.clone(),
            Self::Not(a) => Self::Not(part(a)),
            Self::And(a, b) => Self::And(part(a), part(b)),
            Self::Or(a, b) => Self::Or(part(a), part(b)),
            Self::Xor(a, b) => Self::Xor(part(a), part(b)),
        }
    }

    pub fn has(&self, pin: usize) -> bool {
        match self {
            Self::Constant(_) => false,
            Self::Pin(own) => *own == pin,
            Self::Not(a) => a.has(pin),
            Self::And(a, b) | Self::Or(a, b) | Self::Xor(a, b) => a.has(pin) || b.has(pin),
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
    pin: &'a dyn Fn(&str) -> Option<usize>,
    /// Operators that may still come.
    left: usize,
}

impl Reader<'_> {
    fn take(&mut self, marks: &[char]) -> bool {
        let found = self.rest.strip_prefix(marks);
        self.rest = found.unwrap_or(self.rest).trim_start();
        found.is_some()
    }

    fn count(&mut self) -> Result<(), String> {
        let left = self.left.checked_sub(1);
        self.left = left.ok_or_else(|| format!("more than {LONGEST} operators and brackets"))?;
        Ok(())
    }

    fn or(&mut self) -> Result<Logic, String> {
        let mut all = self.and()?;
        while self.take(&['+', '|']) {
            self.count()?;
            all = Logic::Or(Box::new(all), Box::new(self.and()?));
        }
        Ok(all)
    }

    fn and(&mut self) -> Result<Logic, String> {
        let mut all = self.xor()?;
        // Adjacent operands are also a product.
        while self.take(&['*', '&'])
            || self.rest.starts_with(|c: char| c.is_alphanumeric() || "_(!".contains(c))
        {
            self.count()?;
            all = Logic::And(Box::new(all), Box::new(self.xor()?));
        }
        Ok(all)
    }

    fn xor(&mut self) -> Result<Logic, String> {
        let mut all = self.operand()?;
        while self.take(&['^']) {
            self.count()?;
            all = Logic::Xor(Box::new(all), Box::new(self.operand()?));
        }
        Ok(all)
    }

    fn operand(&mut self) -> Result<Logic, String> {
        if self.take(&['!']) {
            self.count()?;
            return Ok(Logic::Not(Box::new(self.operand()?)));
        }
        let mut logic = if self.take(&['(']) {
            self.count()?;
            let inner = self.or()?;
            if !self.take(&[')']) {
                return Err("a ')' is missing".into());
            }
            inner
        } else {
            let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
            let (name, rest) = self.rest.split_at(end);
            self.rest = rest.trim_start();
            match name {
                "" => return Err(format!("'{}' where a pin is expected", self.rest)),
                "0" | "1" => Logic::Constant(name == "1"),
                name => Logic::Pin((self.pin)(name).ok_or_else(|| format!("no pin '{name}'"))?),
            }
        };
        while self.take(&['\'']) {
            self.count()?;
            logic = Logic::Not(Box::new(logic));
        }
        Ok(logic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> u64 {
        let pins = |name: &str| ["A", "B", "C"].iter().position(|pin| *pin == name);
        let values = [0b1010_1010, 0b1100_1100, 0b1111_0000];
        Logic::parse(text, &pins).unwrap().evaluate(&values) & 0xff
    }

    #[test]
    fn operators_bind_as_liberty_says() {
        for (text, expected) in [
            ("A", 0b1010_1010),
            ("!A", 0b0101_0101),
            ("A'", 0b0101_0101),
            ("A*B", 0b1000_1000),
            ("A B", 0b1000_1000),
            ("A^B", 0b0110_0110),
            ("A + B * C", 0b1110_1010),
            ("(A | B) & C", 0b1110_0000),
            ("(!A * !B) + (!C)", 0b0001_1111),
            ("(A*B)'", 0b0111_0111),
            ("A ^ B & C", 0b0110_0000),
            ("1", 0b1111_1111),
        ] {
            assert_eq!(table(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_function_is_refused() {
        let error = |text: &str| Logic::parse(text, &|name| (name == "A").then_some(0)).unwrap_err();
        assert!(error("A + D").contains("no pin 'D'"));
        assert!(error("(A").contains("')'"));
        assert!(error("A)").contains("left over"));
        assert!(error("A +").contains("expected"));
        // Each of them would be a tree of this depth.
        for deep in [
            format!("{}A{}", "(".repeat(100_000), ")".repeat(100_000)),
            format!("{}A", "!".repeat(100_000)),
            format!("A{}", "'".repeat(100_000)),
            format!("A{}", " + A".repeat(100_000)),
            format!("A{}", " A".repeat(100_000)),
            format!("A{}", "^A".repeat(100_000)),
        ] {
            let text = error(&deep);
            assert!(text.ends_with("...': more than 1000 operators and brackets"), "{text}");
        }
        assert!(Logic::parse(&format!("A{}", " + A".repeat(1000)), &|_| Some(0)).is_ok());
    }

    #[test]
    fn a_pin_can_be_replaced() {
        let pins = |name: &str| ["A", "B"].iter().position(|pin| *pin == name);
        let logic = Logic::parse("A ^ !B", &pins).unwrap();
        let replaced = logic.with(1, &Logic::Constant(true));
        assert_eq!(replaced.evaluate(&[0b01]) & 3, 0b01);
        assert!(logic.has(1) && !replaced.has(1));
    }
}
