//! The pins of the GEMV unit: what the driver may touch, and their mapping to the ports of a Verilated model.
//!
//! Behind a trait, so that tests can put a unit with a known fault in the place of the model and see the driver catch
//! it. All outputs are functions of registers: they are sampled before a rising edge and do not depend on the inputs
//! of the same cycle.

use super::beat::Beat;
use crate::error::SimError;
use crate::ffi::{InputPort, Model, OutputPort};
use ndp_config::{BEAT_BITS, GemvConfig};

/// One result as the unit states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResultBeat {
    /// FP16 bits.
    pub data: u16,
    /// Row.
    pub row: u32,
    /// Vector of the batch.
    pub batch: u32,
    /// Final result of its command.
    pub last: bool,
}

impl std::fmt::Display for ResultBeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { data, row, batch, last } = *self;
        write!(f, "row {row}, batch {batch}, last {}, data {data:#06x}", u8::from(last))
    }
}

/// The parameters of a load or dot command; `rows` is not part of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct CommandWord {
    pub rows: u32,
    pub cols: u32,
    pub batch: u32,
    pub base: u32,
}

/// All outputs before a rising edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Outputs {
    pub load_ready: bool,
    pub activation_ready: bool,
    pub dot_ready: bool,
    /// One bit per rank.
    pub weight_ready: u32,
    pub result: Option<ResultBeat>,
    pub busy: bool,
}

/// A unit with its clock. Inputs keep their value until they are driven again.
pub(super) trait Pins {
    /// Samples the outputs.
    fn outputs(&self) -> Outputs;
    /// Offers a load command, or none.
    fn drive_load(&mut self, word: Option<CommandWord>);
    /// Offers a dot command, or none.
    fn drive_dot(&mut self, word: Option<CommandWord>);
    /// Offers a beat of activations, or none.
    fn drive_activation(&mut self, beat: Option<&Beat>);
    /// Offers a beat of a rank's weights, or none.
    fn drive_weight(&mut self, rank: usize, beat: Option<&Beat>);
    /// Sets the ready of the result stream.
    fn drive_result_ready(&mut self, ready: bool);
    /// One clock cycle.
    fn tick(&mut self);
    /// Cycles since the unit was made, those in reset included; also the number of the next one.
    fn cycle(&self) -> u64;
    /// Drives all valid and ready inputs low and resets the unit.
    fn reset(&mut self);
}

/// The pins of a Verilated `gemv_unit`.
#[derive(Debug)]
pub(super) struct ModelPins {
    pub model: Model,
    load: [InputPort; 4],
    load_ready: OutputPort,
    activation: [InputPort; 2],
    activation_ready: OutputPort,
    dot: [InputPort; 5],
    dot_ready: OutputPort,
    weights: Vec<([InputPort; 2], OutputPort)>,
    result_ready: InputPort,
    result_valid: OutputPort,
    /// Data, row, batch, last.
    result: [OutputPort; 4],
    busy: OutputPort,
}

/// Cycles for which the reset is held.
const RESET_CYCLES: u64 = 2;

impl ModelPins {
    /// Looks every port up, with the width that the configuration implies.
    pub(super) fn new(model: Model, config: &GemvConfig) -> Result<Self, SimError> {
        let input = |name: &str, width| model.input_of_width(name, width);
        let output = |name: &str, width| model.output_of_width(name, width);
        let (cols, batch) = (config.col_bits(), config.batch_bits());
        let (rows, base) = (config.row_bits(), config.slice_addr_bits());
        let weight = |rank: u32| {
            let data =
                [input(&format!("w{rank}_valid_i"), 1)?, input(&format!("w{rank}_data_i"), BEAT_BITS)?];
            Ok((data, output(&format!("w{rank}_ready_o"), 1)?))
        };
        Ok(Self {
            load: [
                input("load_valid_i", 1)?,
                input("load_cols_i", cols)?,
                input("load_batch_i", batch)?,
                input("load_base_i", base)?,
            ],
            load_ready: output("load_ready_o", 1)?,
            activation: [input("x_valid_i", 1)?, input("x_data_i", BEAT_BITS)?],
            activation_ready: output("x_ready_o", 1)?,
            dot: [
                input("dot_valid_i", 1)?,
                input("dot_cols_i", cols)?,
                input("dot_batch_i", batch)?,
                input("dot_base_i", base)?,
                input("dot_rows_i", rows)?,
            ],
            dot_ready: output("dot_ready_o", 1)?,
            weights: (0..config.ranks()).map(weight).collect::<Result<_, SimError>>()?,
            result_ready: input("result_ready_i", 1)?,
            result_valid: output("result_valid_o", 1)?,
            result: [
                output("result_data_o", 16)?,
                output("result_row_o", rows)?,
                output("result_batch_o", batch)?,
                output("result_last_o", 1)?,
            ],
            busy: output("busy_o", 1)?,
            model,
        })
    }

    #[inline]
    fn is_high(&self, port: OutputPort) -> bool {
        self.model.get(port) != 0
    }
}

/// Valid and data of one stream.
#[inline]
fn drive_stream(model: &mut Model, [valid, data]: [InputPort; 2], beat: Option<&Beat>) {
    model.set(valid, u64::from(beat.is_some()));
    if let Some(beat) = beat {
        model.set_words(data, beat);
    }
}

impl Pins for ModelPins {
    #[inline]
    fn outputs(&self) -> Outputs {
        let result = self.is_high(self.result_valid).then(|| {
            let [data, row, batch, last] = self.result.map(|port| self.model.get(port));
            ResultBeat { data: data as u16, row: row as u32, batch: batch as u32, last: last != 0 }
        });
        let ready = |rank: usize| u32::from(self.is_high(self.weights[rank].1)) << rank;
        Outputs {
            load_ready: self.is_high(self.load_ready),
            activation_ready: self.is_high(self.activation_ready),
            dot_ready: self.is_high(self.dot_ready),
            weight_ready: (0..self.weights.len()).map(ready).sum(),
            result,
            busy: self.is_high(self.busy),
        }
    }

    fn drive_load(&mut self, word: Option<CommandWord>) {
        let [valid, fields @ ..] = self.load;
        self.model.set(valid, u64::from(word.is_some()));
        let Some(CommandWord { cols, batch, base, .. }) = word else { return };
        fields.into_iter().zip([cols, batch, base]).for_each(|(port, v)| self.model.set(port, v.into()));
    }

    fn drive_dot(&mut self, word: Option<CommandWord>) {
        let [valid, fields @ ..] = self.dot;
        self.model.set(valid, u64::from(word.is_some()));
        let Some(CommandWord { rows, cols, batch, base }) = word else { return };
        fields
            .into_iter()
            .zip([cols, batch, base, rows])
            .for_each(|(port, v)| self.model.set(port, v.into()));
    }

    fn drive_activation(&mut self, beat: Option<&Beat>) {
        drive_stream(&mut self.model, self.activation, beat);
    }

    fn drive_weight(&mut self, rank: usize, beat: Option<&Beat>) {
        drive_stream(&mut self.model, self.weights[rank].0, beat);
    }

    fn drive_result_ready(&mut self, ready: bool) {
        self.model.set(self.result_ready, ready.into());
    }

    #[inline]
    fn tick(&mut self) {
        self.model.tick();
    }

    fn cycle(&self) -> u64 {
        self.model.cycle()
    }

    fn reset(&mut self) {
        self.drive_load(None);
        self.drive_dot(None);
        self.drive_activation(None);
        (0..self.weights.len()).for_each(|rank| self.drive_weight(rank, None));
        self.drive_result_ready(false);
        self.model.reset(RESET_CYCLES);
    }
}
