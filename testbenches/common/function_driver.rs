use super::activation_driver::recoded;
use ndp_oracle::ieee::Operation;
use ndp_sim::ffi::{Model, OpenOptions, Rtl};
use std::error::Error;
use std::ops::RangeInclusive;

const LATENCY: usize = 10;

#[derive(Clone, Copy, Debug)]
pub enum Function {
    Silu,
    Gelu,
    /// The value divided by the divisor.
    Div,
}

/// The first wrong result, and the number of results.
pub fn run(
    rtl: &Rtl,
    function: Function,
    operands: impl IntoIterator<Item = (u16, u16)>,
    expected: impl Fn(u16, u16) -> u16,
) -> Result<(Option<String>, usize), Box<dyn Error>> {
    let options = OpenOptions { random_contents: Some(1), ..OpenOptions::default() };
    let mut model = Model::open(rtl, &options)?;
    let gelu = model.input_of_width("gelu_i", 1)?;
    let divide = model.input_of_width("divide_i", 1)?;
    let (value, divisor) = (model.input_of_width("value_i", 16)?, model.input_of_width("divisor_i", 16)?);
    let result = model.output_of_width("value_o", 16)?;
    model.set(gelu, matches!(function, Function::Gelu).into());
    model.set(divide, matches!(function, Function::Div).into());
    let (mut way, mut compared) = ([None; LATENCY], 0);
    for now in operands.into_iter().map(Some).chain([None; LATENCY]) {
        let (a, b) = now.unwrap_or((0x1234, 0x4321));
        model.set(value, recoded(a).into());
        model.set(divisor, recoded(b).into());
        model.tick();
        way.rotate_right(1);
        way[0] = now;
        if let Some((a, b)) = way[LATENCY - 1] {
            let (actual, expected) = (model.get(result) as u16, recoded(expected(a, b)));
            if actual != expected {
                let message = format!("{function:?}({a:#06x}, {b:#06x}): {actual:#06x}, not {expected:#06x}");
                return Ok((Some(message), compared));
            }
            compared += 1;
        }
    }
    Ok((None, compared))
}

/// A quotient by the processor's division.
pub fn quotient(a: u16, b: u16) -> u16 {
    Operation::Div.result_by_f64(a, b)
}

/// All quotients of these numbers: [`run`], compiled as one piece.
pub fn all_quotients(rtl: &Rtl, of: RangeInclusive<u16>) -> Result<(Option<String>, usize), Box<dyn Error>> {
    let all = of.flat_map(|a| (0..=u16::MAX).map(move |b| (a, b)));
    run(rtl, Function::Div, all, quotient)
}
