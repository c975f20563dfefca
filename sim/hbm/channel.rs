//! The Verilated channel at its pins.

use crate::ffi::{InputPort, Model, OpenOptions, OutputPort, Rtl};
use ndp_files::Result;

/// Clocks in reset before the first one: the model's cycles are ahead of the channel's clocks by this number.
pub const RESET_CLOCKS: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelOutputs {
    /// The driven data: two transfers of 64 bits.
    pub read: Option<[u64; 2]>,
    /// Answers to the row and the column command of this clock.
    pub status: [u8; 2],
    /// Codes 64, 65, 66: overdue refresh, missing write data, write data without WR.
    pub reports: [bool; 3],
}

#[derive(Debug)]
pub struct PimChannel {
    pub model: Model,
    row: InputPort,
    column: InputPort,
    data_valid: InputPort,
    data: InputPort,
    reset: InputPort,
    status: [OutputPort; 2],
    read_valid: OutputPort,
    read: OutputPort,
    reports: [OutputPort; 3],
}

impl PimChannel {
    pub const BLOCK: &'static str = "pim_channel";

    /// Opens a channel, in reset for [`RESET_CLOCKS`].
    ///
    /// # Errors
    /// Errors of [`Model::open`]; a missing port.
    pub fn open(rtl: &Rtl, options: &OpenOptions) -> Result<Self> {
        let mut model = Model::open(rtl, options)?;
        model.reset(RESET_CLOCKS);
        Ok(Self {
            row: model.input_of_width("row_i", 32)?,
            column: model.input_of_width("column_i", 32)?,
            data_valid: model.input_of_width("data_valid_i", 1)?,
            data: model.input_of_width("data_i", 128)?,
            reset: model.input_of_width("rst_ni", 1)?,
            status: [model.output_of_width("row_status_o", 7)?, model.output_of_width("column_status_o", 7)?],
            read_valid: model.output_of_width("data_valid_o", 1)?,
            read: model.output_of_width("data_o", 128)?,
            reports: [
                model.output_of_width("refresh_late_o", 1)?,
                model.output_of_width("write_missing_o", 1)?,
                model.output_of_width("write_unexpected_o", 1)?,
            ],
            model,
        })
    }

    /// Takes the words on the command buses and the controller's write data.
    pub fn clock(&mut self, row: u32, column: u32, write: Option<[u64; 2]>) -> ChannelOutputs {
        let model = &mut self.model;
        model.set(self.row, row.into());
        model.set(self.column, column.into());
        model.set(self.data_valid, write.is_some().into());
        model.set_longs(self.data, &write.unwrap_or_default());
        model.eval();
        // A status has seven bits.
        let status = self.status.map(|port| model.get(port) as u8);
        let reports = self.reports.map(|port| model.get(port) != 0);
        let read = (model.get(self.read_valid) != 0).then(|| model.get_longs(self.read));
        model.tick();
        ChannelOutputs { read, status, reports }
    }

    pub fn reset(&mut self, clocks: u64) {
        for port in [self.row, self.column, self.data_valid] {
            self.model.set(port, 0);
        }
        self.model.set(self.reset, 0);
        self.model.ticks(clocks);
        self.model.set(self.reset, 1);
    }
}
