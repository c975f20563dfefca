//! Energy of a decode step, from the work of its devices.
//!
//! | work | commands of all channels |
//! | --- | --- |
//! | weights for the NPU only | a RD for each column, a row for each 32 of them |
//! | weights that the banks get too, `b` requests in memory | `ceil(b / banks)` passes; in each a RDG and a MAC for every column, rows as above, a row of inputs in each bank for every piece of a row, RES for each output and piece. Before that WR of all inputs in every channel |
//! | an FFN that AttAcc shares | of the banks' part: a row for each row of weights, in which a MAC for each column and vector, a RES for each row and vector; GBW of all vectors in every channel |
//! | attention in the banks | rows, MACs, GBW and RES of [`crate::offloading::pim`] |
//! | attention on the NPU | a RD for each column of keys and values |
//! | all the time | a row is open in every channel, REF at its interval, the NPU's standby |
//!
//! The NPU's arithmetic is two operations per MAC. Left out, as in the times: new keys and values, softmax, norms,
//! activations over the bus (except inputs of offloaded FFNs), and on-chip memory beyond an operation's price.

use crate::offloading::hardware::Hardware;
use crate::offloading::pim::PimTimes;
use crate::offloading::step::{Job, Step};
use crate::offloading::timeline::Device;
use crate::offloading::work::{Matrix, Model};
use ndp_energy::{
    Energy, HbmConstants, HbmCosts, HbmCounts, HbmEnergy, HbmEvent, HbmSizes, NpuConstants, ratio_range,
};
use serde::Serialize;

ndp_config::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Purpose {
        /// Weights from the cells to the NPU and all others.
        Weights,
        /// Keys and values read by the NPU.
        AttentionOnNpu,
        Attention,
        /// Inputs, MACs and results of matrices in the banks.
        MatricesInMemory,
        /// Clocks and REF of the memory.
        MemoryStandby,
        NpuArithmetic,
        NpuStandby,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepEnergy {
    pub total: Energy,
    pub memory: Energy,
    /// Sums to the total.
    pub purposes: [(Purpose, Energy); Purpose::ALL.len()],
    /// The memory's energy by part.
    pub parts: HbmEnergy,
    /// Commands of all channels.
    pub counted: HbmCounts,
}

impl StepEnergy {
    pub fn of(&self, purpose: Purpose) -> Energy {
        self.purposes.iter().filter(|(of, _)| *of == purpose).map(|(_, energy)| *energy).sum()
    }

    /// Ratio to another step's energy and its range over the shared constants, with or without the NPU.
    pub fn over(&self, other: &Self, with_npu: bool) -> Option<[f64; 3]> {
        let mut pairs: Vec<(Energy, Energy)> =
            self.parts.iter().zip(other.parts.iter()).map(|((_, one), (_, other))| (one, other)).collect();
        if with_npu {
            let npu = [Purpose::NpuArithmetic, Purpose::NpuStandby];
            pairs.extend(npu.map(|purpose| (self.of(purpose), other.of(purpose))));
        }
        ratio_range(&pairs)
    }
}

#[derive(Clone, Debug)]
pub struct StepCosts {
    model: Model,
    hardware: Hardware,
    pim: PimTimes,
    memory: HbmCosts,
    npu: NpuConstants,
}

impl StepCosts {
    pub fn new(model: &Model, hardware: &Hardware, memory: &HbmConstants, npu: &NpuConstants) -> Self {
        let pim = &hardware.pim;
        let sizes = HbmSizes {
            banks: pim.banks,
            row_bytes: pim.row_bytes,
            column_bytes: pim.column_bytes,
            clock_ps: pim.clock_ps,
        };
        Self {
            model: model.clone(),
            hardware: *hardware,
            pim: PimTimes::new(hardware, false),
            memory: HbmCosts::new(memory, sizes),
            npu: npu.clone(),
        }
    }

    pub fn of(&self, step: &Step) -> StepEnergy {
        let mut counts = Purpose::ALL.map(|purpose| (purpose, HbmCounts::default()));
        let mut add = |purpose: Purpose, event, count| counts[purpose as usize].1.add(event, count);
        for (job, times) in &step.jobs {
            self.count(job, &mut |purpose, event, count| add(purpose, event, count * times));
        }
        let span = step.timeline.span.0;
        let channels = u64::from(self.hardware.pim.channels);
        add(Purpose::MemoryStandby, HbmEvent::ActiveClock, self.memory.clocks(span) * channels);
        add(Purpose::MemoryStandby, HbmEvent::Refresh, self.memory.refreshes(span) * channels);
        let mut counted = HbmCounts::default();
        counts.iter().for_each(|(_, of)| counted += *of);
        let purposes = counts.map(|(purpose, of)| {
            let energy = match purpose {
                Purpose::NpuArithmetic => self.npu.flops(2 * step.npu_macs),
                Purpose::NpuStandby => self.npu.standby(span),
                _ => self.memory.of(&of).total(),
            };
            (purpose, energy)
        });
        let parts = self.memory.of(&counted);
        let total = purposes.iter().map(|(_, energy)| *energy).sum();
        StepEnergy { total, memory: parts.total(), purposes, parts, counted }
    }

    fn count(&self, job: &Job, add: &mut dyn FnMut(Purpose, HbmEvent, u64)) {
        match job {
            Job::Matrix { work, npu, pim } => {
                self.model.matrices(*work).for_each(|matrix| self.count_matrix(matrix, *npu, *pim, add));
            }
            Job::Coprocessed { requests, npu_macs, pim_macs } => {
                let requests = u64::from(*requests);
                let columns = |macs: u64| self.columns(2 * macs.div_ceil(requests.max(1)));
                self.count_read(Purpose::Weights, HbmEvent::Read, columns(*npu_macs), add);
                let (banks, channels) =
                    (u64::from(self.hardware.pim.banks), u64::from(self.hardware.pim.channels));
                let rows = self.rows(columns(*pim_macs));
                let mut add = |event, count| add(Purpose::MatricesInMemory, event, count);
                add(HbmEvent::Row, rows);
                add(HbmEvent::Mac, columns(*pim_macs).div_ceil(banks) * requests);
                add(HbmEvent::Result, rows.div_ceil(banks) * requests);
                let inputs: u64 = self.model.ffn_parts().map(|matrix| u64::from(matrix.inputs)).sum();
                add(HbmEvent::BufferWrite, self.columns(2 * inputs) * requests * channels);
            }
            Job::Attention { device: Device::Npu, contexts } => {
                let bytes = contexts.iter().map(|&context| self.model.kv_bytes(context)).sum();
                self.count_read(Purpose::AttentionOnNpu, HbmEvent::Read, self.columns(bytes), add);
            }
            Job::Attention { device: Device::Pim, contexts } => {
                let (banks, heads) = (u64::from(self.hardware.pim.banks), u64::from(self.model.kv_heads));
                for &context in contexts {
                    let head = self.pim.head_work(&self.model, context);
                    let mut add = |event, count| add(Purpose::Attention, event, count * heads);
                    let rows = self.rows(head.key_columns) + self.rows(head.value_columns);
                    add(HbmEvent::Row, rows * banks * head.openings);
                    add(HbmEvent::Mac, head.group * (head.key_columns + head.value_columns));
                    add(HbmEvent::BufferWrite, head.group * head.loads);
                    add(HbmEvent::Result, head.group * head.results);
                }
            }
        }
    }

    fn count_matrix(&self, matrix: Matrix, npu: u32, pim: u32, add: &mut dyn FnMut(Purpose, HbmEvent, u64)) {
        let channels = u64::from(self.hardware.pim.channels);
        if pim == 0 {
            if npu > 0 {
                let columns = self.columns(2 * matrix.weights());
                self.count_read(Purpose::Weights, HbmEvent::Read, columns, add);
            }
            return;
        }
        let work = self.pim.broadcast_work(matrix, pim);
        let columns = work.columns * channels;
        self.count_read(Purpose::Weights, HbmEvent::BufferRead, columns, add);
        let again = columns * (work.passes - 1);
        self.count_read(Purpose::MatricesInMemory, HbmEvent::BufferRead, again, add);
        let mut add = |event, count| add(Purpose::MatricesInMemory, event, count * channels);
        add(HbmEvent::Mac, work.columns * work.passes);
        add(HbmEvent::Result, work.sums * work.passes);
        // Inputs: written to one bank each, then opened in all.
        add(HbmEvent::Row, work.pieces * (u64::from(pim) + work.passes * u64::from(self.hardware.pim.banks)));
        add(HbmEvent::Write, work.vectors);
    }

    /// Columns read from interleaved rows.
    fn count_read(
        &self,
        purpose: Purpose,
        event: HbmEvent,
        columns: u64,
        add: &mut dyn FnMut(Purpose, HbmEvent, u64),
    ) {
        add(purpose, event, columns);
        add(purpose, HbmEvent::Row, self.rows(columns));
    }

    fn columns(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.hardware.pim.column_bytes.into())
    }

    fn rows(&self, columns: u64) -> u64 {
        columns.div_ceil(self.hardware.row_columns().into())
    }
}
