//! Multiplier unit: eight lanes, one aligner ([`super::product_aligner`]), one exact accumulator (Hermes, section IV-A2).
//!
//! Lanes load one phase apart. In phase `i` bit-serial lane `i` takes weight `i` and activation `i` while its previous
//! product leaves to the aligner, so that operands and products are held nowhere else. A digit-serial lane does the
//! same, but finishes earlier and waits for its turn. With one multiplier for all lanes (`shared-parallel`) lane `i` is
//! only a turn: its operands are registered in the phase before phase `i`, and their product leaves in phase `i`.
//!
//! The product is shifted to its place above 2^-48 and added to the accumulator, whose segments pass carries on one
//! segment per cycle; the phases without a product resolve the last carries. A window's digits are read while the next
//! window's products are in flight: segment `k` in phase `lanes + 1 + k`.
//!
//! To save power, a register is enabled only while it holds a value that a later stage reads: lanes and delay line in a
//! job's window, line and term in the window in which its products leave, the sum in all of that but the first cycle,
//! and in the cycle after it.

use super::digit_serial_lane::digit_serial_lane;
use super::prelude::*;
use super::product_aligner::product_aligner;
use super::serial_lane::serial_lane;

/// The phase in which digit `k` of a sum is on `digit_o`, counted from the start of the window in which the lanes hand
/// their products over: `lanes + 1 + k`; past the window's end it lies in the next one.
pub(crate) fn digit_phase(config: &GemvConfig, k: u32) -> u32 {
    config.lanes() + 1 + k
}

bundle! {
    /// Enables of the unit's registers.
    pub(crate) struct Moves(config: &GemvConfig) {
        lanes_move: config.lanes(), "lanes that hold or take operands of a job",
            if config.multiplier() != Multiplier::SharedParallel;
        line_moves: 1, "operands of a job come, or its products leave",
            if config.multiplier() != Multiplier::SharedParallel;
        operands_move: 1, "operands of a job come", if config.multiplier() == Multiplier::SharedParallel;
        term_moves: 1, "products of a job leave";
        sum_moves: 1, "one cycle later: the products are added";
    }
}

/// Suffix of the module title for the configured multiplier.
pub(crate) fn multiplier_suffix(config: &GemvConfig) -> &'static str {
    match config.multiplier() {
        Multiplier::BitSerial => "",
        Multiplier::DigitSerial => "_digit",
        Multiplier::SharedParallel => "_parallel",
    }
}

pub(crate) fn multiplier_name(config: &GemvConfig) -> String {
    let suffix = multiplier_suffix(config);
    format!("l{}_s{}_w{}{suffix}", config.lanes(), config.serial_steps(), config.acc_bits())
}

pub(crate) struct Operand {
    pub sign: Bits,
    pub special: Bits,
    /// Effective exponent, 1..=30.
    pub exp: Bits,
    /// With the hidden bit; for specials see [`super::operand_recoder`].
    pub significand: Bits,
}

pub(crate) fn decode(m: &ModuleBuilder, name: &str, value: &Bits) -> Operand {
    let raw = value.slice(10, 5);
    let special = m.wire(format!("{name}_special"), raw.all());
    let subnormal = m.wire(format!("{name}_subnormal"), raw.is_zero());
    // Subnormals have the exponent of the smallest normal and no hidden bit; recoded specials have none either.
    let exp = cat!(raw.high(4), raw.bit(0) | subnormal);
    let hidden = !(special | subnormal);
    Operand { sign: value.msb(), special, exp, significand: cat!(hidden, value.low(10)) }
}

/// `value` delayed by `stages` cycles with `moves`. Several stages share a register of at most 64 bits, which is one
/// word in simulation.
fn delay_line(m: &ModuleBuilder, name: &str, value: &Bits, stages: u32, moves: &Bits) -> Bits {
    let widest = 64 / stages;
    let delayed = |low: u32| {
        let part = value.slice(low, widest.min(value.width() - low));
        let line = m.reg(format!("{name}{low}_q"), stages * part.width()).enable(moves);
        line.next(cat!(line.low(line.width() - part.width()), part));
        line.high(part.width())
    };
    let parts: Vec<Bits> = (0..value.width()).step_by(widest as usize).map(delayed).collect();
    cat(parts.into_iter().rev())
}

/// The unit for `lanes`, `serial_steps`, `acc_bits` and `acc_segments` of `config`.
///
/// Operands `w_i`, `x_i`: `lanes` recoded FP16 values, element `i` read `operand_lead` cycles before phase `i` only.
/// The sum over a window is exact: a multiple of 2^-48 in `acc_bits`-bit two's complement. Latency: operands of one
/// window, digits from phase `lanes + 1` of the `product_windows`-th one after it.
#[block(m)]
pub fn multiplier_unit(config: &GemvConfig) -> Block {
    let (lanes, steps, window) = (config.lanes(), config.serial_steps(), config.window_cycles());
    let (segments, digit_bits) = (config.acc_segments(), config.digit_bits());
    let m = ModuleBuilder::new(
        format!("multiplier_unit_{}", multiplier_name(config)),
        match config.multiplier() {
            Multiplier::BitSerial => "Eight-lane bit-serial FP16 dot-product unit with an exact accumulator.",
            Multiplier::DigitSerial => {
                "Eight-lane digit-serial FP16 dot-product unit with an exact accumulator."
            }
            Multiplier::SharedParallel => {
                "FP16 dot-product unit with a multiplier for eight lanes and an exact accumulator."
            }
        }
        .replace("Eight", &spelled(lanes)),
    );
    let phase = m.input(window, "phase of the window, one-hot");
    let used = match config.operand_lead() {
        0 => "element i used in phase i",
        _ => "element i used in the phase before phase i",
    };
    let w = m.input(lanes * FP16_BITS, format!("recoded weights, {used}"));
    let x = m.input(lanes * FP16_BITS, format!("recoded activations, {used}"));
    let broadcast =
        m.input(1, "all lanes use `scalar_i` instead of `x_i`; ignored in phases without an operand");
    let scalar = m.input(FP16_BITS, "recoded activation of all lanes");
    let separate = m.input(1, "add the leaving product to `sum_i` instead of the window's sum");
    let import = m.input(1, "add the whole of `w_i` as a sum without carries, instead of a product");
    let moves = Moves::inputs(&m, config);
    let Moves { lanes_move, line_moves, operands_move, term_moves, sum_moves } = moves;
    let sum_in = m.input(sum = sum_bits(config), "sum to add to, in the form of `sum_o`");
    let stored = StoredSum::of(config, &sum_in);
    let imported = StoredSum::of(config, &w.low(sum_bits(config)));
    m.unused(imported.carries, "a sum that is moved has none");

    // Operand of the phase, decoded once for all lanes.
    let lead = config.operand_lead();
    let turn = match lead {
        0 => phase.low(lanes),
        _ => cat!(phase.low(lanes - lead), phase.high(lead)),
    };
    let elements = |v: &Bits| each(lanes, |i| v.slice(i * FP16_BITS, FP16_BITS));
    let w_now = decode(&m, "w", &m.wire("w_now", one_hot_mux(turn, elements(&w))));
    // In a phase without an operand nothing may be sent: the scalar would act as a negative zero, whose carries nobody
    // waits for.
    let shared = broadcast & !phase.slice(lanes - lead, window - lanes).any();
    let x_now = m.wire(mux(shared, scalar, one_hot_mux(turn, elements(&x))));
    let x_now = decode(&m, "x", &x_now);
    let special = m.wire(w_now.special | x_now.special);
    let exp_sum = w_now.exp.zext(EXPONENT_SUM_BITS) + x_now.exp.zext(EXPONENT_SUM_BITS);
    let exp = m.wire(exp_sum | repeat(EXPONENT_SUM_BITS, special));
    let sign = m.wire(w_now.sign ^ x_now.sign);
    let sig_w = m.wire(w_now.significand.high(steps));
    let sig_x = m.wire(x_now.significand);
    if steps < SIGNIFICAND_BITS {
        m.unused(w.low(1), "weights keep their leading serial_steps significand bits only");
    }

    let passed = cat!(sign, exp);
    let (product, late) = match lanes_move.zip(line_moves) {
        Some((lanes_move, line_moves)) => {
            let digits = config.multiplier() == Multiplier::DigitSerial;
            let lane = if digits { digit_serial_lane(steps)? } else { serial_lane(steps, window)? };
            // The phases in which a lane takes its steps.
            let at_work = |i: u32| {
                let phases = (i..i + digit_serial_lane::steps(steps)).map(|at| phase.bit(at % window));
                any_of(phases)
            };
            let mut leaving = Vec::new();
            for i in 0..lanes {
                let moves = lanes_move.bit(i);
                // Both kinds of lanes have the same ports.
                let lane = serial_lane::In {
                    load: phase.bit(i) & moves,
                    r#move: if digits { moves & at_work(i) } else { moves },
                    sig_w,
                    sig_x,
                }
                .part(&m, format!("lane{i}"), &lane);
                leaving.push(lane.product.q());
            }
            // A product leaves exactly one window after its operands came, so exponent and sign need no place in the
            // lanes: a delay line of a window's length brings them to the aligner in the same cycle. Phases without an
            // operand send zeros.
            (one_hot_mux(turn, &leaving), delay_line(&m, "line", &passed, window + 1, &line_moves))
        }
        None => {
            let operands_move = operands_move.unwrap_or_else(|| zeros(1));
            let registered = |name: &str, value: Bits| m.hold(name, value, operands_move);
            let bits = steps + SIGNIFICAND_BITS;
            let (left, right) = (registered("sig_w_q", sig_w), registered("sig_x_q", sig_x));
            let late = m.hold("line_q", registered("sign_exp_q", passed), term_moves);
            (left.zext(bits) * right.zext(bits), late)
        }
    };
    let term_exp = m.wire(late.low(EXPONENT_SUM_BITS));
    let negative = m.wire(late.msb());
    /// One product per phase; zero when no lane has its turn, which is what resolves the carries.
    let term = m.hold(product, term_moves);

    let aligner = product_aligner(config)?;
    let aligner =
        product_aligner::In { product: term, exp: term_exp, negative }.part(&m, "aligner", &aligner);

    /// The first product of a window replaces the sum, and with it the carries of the one before. A product that has a sum of
    /// its own replaces it by that one.
    let keep = m.wire(!(phase.bit(1) | separate));
    let moves = m.wire(sum_moves | separate);
    let previous = |own: &Bits, other: &Bits| own.gated(keep) | other.gated(separate);
    let mut carry_in = negative.gated(!import);
    let mut digits = Vec::new();
    let mut carries = Vec::new();
    for k in 0..segments {
        let product = aligner.digit.at(k);
        let aligned = m.wire(format!("aligned{k}"), mux(import, imported.digits[k as usize], product));
        let segment = m.reg(format!("acc{k}_q"), digit_bits).enable(moves);
        let before = m.wire(format!("before{k}"), previous(&segment, &stored.digits[k as usize]));
        let sum = before.zext(digit_bits + 1) + aligned.zext(digit_bits + 1) + carry_in.zext(digit_bits + 1);
        let sum = m.wire(format!("acc{k}_sum"), sum);
        segment.next(sum.low(digit_bits));
        if k + 1 < segments {
            let carry = m.hold(format!("carry{k}_q"), sum.msb(), moves);
            carry_in = m.wire(format!("carry{k}"), previous(&carry, &stored.carries.bit(k)));
            carries.push(carry);
        } else {
            m.unused(sum.msb(), "two's complement: the carry out of the top is dropped");
        }
        digits.push(segment.q());
    }

    /// Recoded NaNs have a zero significand and infinities do not, so the product tells them apart; infinity times
    /// zero comes out as NaN by itself.
    let is_special = m.wire("term_special", term_exp.all());
    let nonzero = m.wire("term_nonzero", term.any());
    let infinite = m.wire("term_infinite", is_special & nonzero);
    let seen = cat!(infinite & negative, infinite & !negative, is_special & !nonzero);
    let flags = m.reg(FLAG_BITS).enable(moves);
    flags.next(mux(import, imported.flags, seen) | previous(&flags, &stored.flags));

    let read: Vec<Bits> = (0..segments).rev().map(|k| phase.bit(digit_phase(config, k) % window)).collect();
    let quiet: Vec<Bits> = (0..window)
        .filter(|p| (0..segments).all(|k| digit_phase(config, k) % window != *p))
        .map(|p| phase.bit(p))
        .collect();
    m.unused(any_of(&quiet), "phases in which only the lanes' own turn happens");
    m.output(digit = one_hot_mux(cat(read), &digits), "digit of the sum over the last window, in its phase");
    m.output(flags, "NaN, +Inf, -Inf seen in the window; valid with the last digit");
    let sum = [flags.q(), cat(carries.into_iter().rev())].into_iter().chain(digits.into_iter().rev());
    m.output(sum = cat(sum), "sum including the last addition: flags, pending carries, digits");
    m.finish()
}

/// Bits of a sum kept between products: its digits, the carries pending between them, its flags.
pub(crate) fn sum_bits(config: &GemvConfig) -> u32 {
    config.acc_bits() + config.acc_segments() - 1 + FLAG_BITS
}

pub(crate) struct StoredSum {
    /// Least significant first.
    pub digits: Vec<Bits>,
    /// Carry `k` still has to be added to digit `k + 1`.
    pub carries: Bits,
    /// NaN, +Inf, -Inf seen.
    pub flags: Bits,
}

impl StoredSum {
    pub fn of(config: &GemvConfig, word: &Bits) -> Self {
        let (segments, digit_bits) = (config.acc_segments(), config.digit_bits());
        Self {
            digits: (0..segments).map(|k| word.slice(k * digit_bits, digit_bits)).collect(),
            carries: word.slice(config.acc_bits(), segments - 1),
            flags: word.high(FLAG_BITS),
        }
    }
}

fn spelled(lanes: u32) -> String {
    match lanes {
        8 => "Eight".into(),
        16 => "Sixteen".into(),
        other => other.to_string(),
    }
}
