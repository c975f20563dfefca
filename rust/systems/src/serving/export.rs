//! Tables of latencies for LLMServingSim, and our own with energies.
//!
//! LLMServingSim (commit 5daddb2) reads, for an NPU, a folder `tp<N>` of CSV files with times in microseconds
//! (`docs/docs/profiler/output-bundle.md`, `trace_generator._load_perf_db`); for PIM twelve keys of a DRAMsim3 INI
//! file, and a line `slope, intercept` in its `pim_model.py`: attention of a request in one layer, all heads in one
//! channel, at Llama-3.1-8B's head sizes. It has no energies but two powers of a channel.
//!
//! Layers are its catalogue's for Llama. Embedding, rotary embedding and sampler, which we do not model, are 0.

use crate::serving::librapim::LibraPimSteps;
use ndp_config::HbmConfig;
use ndp_files::{Result, in_range};
use ndp_librapim::offloading::npu::NpuTimes;
use ndp_librapim::offloading::step::Job;
use ndp_librapim::offloading::timeline::{Device, Work};
use ndp_librapim::offloading::{DeviceTimes, Hardware, Mode, Model, Picos, Step, StepCosts};
use serde::Serialize;
use std::fmt::Write;

/// Tokens of `dense.csv`, sequences of `per_sequence.csv`.
const TOKENS: [u32; 14] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Tokens of a prompt's chunk; 0 is none.
const CHUNKS: [u32; 7] = [0, 16, 64, 256, 512, 1024, 2048];
const HISTORIES: [u32; 5] = [0, 64, 512, 1024, 2048];
/// Requests that generate a token; 0 is none.
const DECODING: [u32; 10] = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Tokens in K and V of each.
pub const CONTEXTS: [u32; 9] = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Step of the contexts to fit `pim_model.py`'s line to, from 128 to 4096 as in its authors' loop.
const FIT_STEP: u32 = 128;
const FIT_END: u32 = 4096;

/// Model whose head sizes are the base of `pim_model.py`.
pub fn reference_model() -> Model {
    Model {
        name: "llama-3.1-8b".to_owned(),
        layers: 32,
        hidden: 4096,
        heads: 32,
        kv_heads: 8,
        head_width: 128,
        ffn: 14_336,
        ffn_matrices: 3,
        vocabulary: 128_256,
        windows: Vec::new(),
    }
}

pub fn contexts() -> impl Iterator<Item = u32> {
    CONTEXTS.into_iter().chain((1..=FIT_END / FIT_STEP).map(|index| index * FIT_STEP))
}

/// The line of `pim_model.py`, in nanoseconds and nanoseconds per token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PimLine {
    /// Per token in K and V.
    pub slope: f64,
    pub intercept: f64,
    /// Largest relative distance of a time from the line.
    pub worst: f64,
}

impl PimLine {
    /// Least squares through the times of one request of [`reference_model`] in one channel.
    pub fn fit(times: &dyn DeviceTimes, hardware: &Hardware) -> Self {
        let model = reference_model();
        // Heads of a request in one channel: all, if the times deal them over all channels.
        let share = model.kv_heads.div_ceil(hardware.pim.channels);
        let scale = f64::from(model.kv_heads) / f64::from(share) / 1e3;
        let points: Vec<(f64, f64)> = (1..=FIT_END / FIT_STEP)
            .map(|index| index * FIT_STEP)
            .map(|context| (context.into(), times.mha_pim(1, context).0 as f64 * scale))
            .collect();
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>()
            / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>();
        let intercept = y - slope * x;
        let distance = |point: &(f64, f64)| (slope * point.0 + intercept - point.1).abs() / point.1;
        Self { slope, intercept, worst: points.iter().map(distance).fold(0.0, f64::max) }
    }
}

pub struct Tables<'a> {
    /// A chip's part of the model.
    pub part: &'a Model,
    pub hardware: &'a Hardware,
    /// Description of their memory.
    pub memory: &'a HbmConfig,
    pub times: &'a dyn DeviceTimes,
    pub costs: &'a StepCosts,
    pub mode: Mode,
}

fn us(time: Picos) -> String {
    format!("{:.3}", time.us())
}

impl Tables<'_> {
    fn npu(&self) -> NpuTimes {
        NpuTimes::new(self.hardware, self.mode.sliced())
    }

    /// `dense.csv`: layers on the NPU by tokens.
    pub fn dense(&self) -> String {
        let (npu, model) = (self.npu(), self.part);
        let up: Vec<_> = model.ffn_parts().take(model.ffn_matrices as usize - 1).collect();
        let mut text = "layer,tokens,time_us\n".to_owned();
        let mut rows = |name: &str, time: &dyn Fn(u32) -> Picos| {
            for tokens in TOKENS {
                let _ = writeln!(text, "{name},{tokens},{}", us(time(tokens)));
            }
        };
        let normalised = |tokens| npu.normalised(model.hidden, tokens);
        rows("embedding", &|_| Picos::ZERO);
        // A normalisation includes the residual sum before it.
        rows("layernorm", &|tokens| normalised(tokens) + npu.mapped(model.hidden, tokens));
        rows("qkv_proj", &|tokens| npu.gemm(model.qkv(), tokens).total());
        rows("rotary_emb", &|_| Picos::ZERO);
        rows("o_proj", &|tokens| npu.gemm(model.projection(), tokens).total());
        rows("gate_up_proj", &|tokens| npu.gemms(up.iter().copied(), tokens).total());
        rows("act_fn", &|tokens| npu.mapped(model.ffn * (model.ffn_matrices - 1), tokens));
        rows("down_proj", &|tokens| npu.gemms(model.ffn_parts().skip(up.len()), tokens).total());
        rows("final_layernorm", &normalised);
        text
    }

    /// `per_sequence.csv`: logits by sequences.
    pub fn per_sequence(&self) -> String {
        let mut text = "layer,sequences,time_us\n".to_owned();
        for sequences in TOKENS {
            let time = self.npu().gemm(self.part.head(), sequences).total();
            let _ = writeln!(text, "lm_head,{sequences},{}\nsampler,{sequences},0.000", us(time));
        }
        text
    }

    /// `attention.csv`: a prompt's chunk on the NPU, then requests in the banks.
    pub fn attention(&self) -> String {
        let npu = self.npu();
        let mut text = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n".to_owned();
        for chunk in CHUNKS {
            for history in HISTORIES.into_iter().filter(|history| chunk > 0 || *history == 0) {
                for decoding in DECODING.into_iter().filter(|decoding| chunk + decoding > 0) {
                    for context in [0].into_iter().chain(CONTEXTS) {
                        if (decoding == 0) != (context == 0) {
                            continue;
                        }
                        let prompt = match chunk {
                            0 => Picos::ZERO,
                            _ => LibraPimSteps::attention_of_chunk(&npu, self.part, chunk, chunk + history),
                        };
                        let banks = match decoding {
                            0 => Picos::ZERO,
                            _ => self.times.mha_pim(decoding, context),
                        };
                        let time = us(prompt + banks);
                        let _ = writeln!(text, "{chunk},{history},{decoding},{context},{time}");
                    }
                }
            }
        }
        text
    }

    /// `meta.yaml` of a folder for `tp` chips, without correction for requests of different lengths.
    pub fn meta(&self, hardware: &str, model: &str, tp: u32) -> String {
        let most = TOKENS[TOKENS.len() - 1];
        let seqs = DECODING[DECODING.len() - 1];
        format!(
            "profiler_version: \"ndp serve export\"\nvllm_version: \"n/a\"\ngpu: \"n/a\"\nhardware: \"{hardware}\"\nvariant: \"fp16\"\n\
             model: \"{model}\"\ntp_degrees: [{tp}]\nengine_effective:\n  max_num_batched_tokens: {most}\n  max_num_seqs: {seqs}\n"
        )
    }

    /// Milliwatts of an idle channel, and in attention with a request in each channel.
    pub fn milliwatts(&self) -> [f64; 2] {
        let channels = self.hardware.pim.channels;
        let of = |step: &Step| {
            let pj = self.costs.of(step).memory.pj();
            1e3 * pj / step.timeline.span.0 as f64 / f64::from(channels)
        };
        let time = self.times.mha_pim(channels, FIT_END);
        let job = Job::Attention { device: Device::Pim, contexts: vec![FIT_END; channels as usize] };
        let step = |span, jobs| Step::alone(self.mode, span, jobs);
        [of(&step(Picos(1_000_000_000), Vec::new())), of(&step(time, vec![(job, 1)]))]
    }

    /// INI file of a memory, with the twelve keys in use.
    pub fn pim_ini(&self) -> String {
        let pim = &self.hardware.pim;
        // A channel carries a column in tCCD_S over 64 lines.
        let bus_bits = 64;
        let mega = f64::from(pim.column_bytes) * 8e6
            / f64::from(bus_bits)
            / (f64::from(pim.t_ccd_s) * f64::from(pim.clock_ps));
        let columns = pim.row_bytes * 8 / bus_bits;
        let rows = self.memory.rows();
        let megabytes = (self.memory.bytes() / u64::from(pim.channels)) >> 20;
        let [idle, peak] = self.milliwatts();
        format!(
            "[dram_structure]\nprotocol = HBM\nbankgroups = {}\nbanks_per_group = {}\nrows = {rows}\ncolumns = {columns}\n\
             device_width = {bus_bits}\n\n[timing]\ntCK = {}\nCL = {}\n\n[system]\nchannel_size = {megabytes}\nbus_width = {bus_bits}\n\n\
             [other]\ndata_rate = {mega:.0} # MT/s\nidle_power = {idle:.0} # mW\npeak_power = {peak:.0} # mW\n",
            self.memory.bank_groups(),
            self.memory.banks_per_group(),
            f64::from(pim.clock_ps) / 1e3,
            self.memory.t_cl(),
        )
    }

    /// Our table: parts of a decoder layer, and logits, by requests and context, with energy.
    ///
    /// Columns: `layer` (`qkv`, `attention`, `projection`, `ffn` per decoder layer, `head` per token), `batch`
    /// (requests), `context` (tokens in K and V, or 0), `latency_ns`, `energy_pj` (memory with standby, and NPU).
    pub fn energies(&self) -> String {
        let mut text = "layer,batch,context,latency_ns,energy_pj\n".to_owned();
        let mut row = |name: &str, batch: u32, context: u32, time: Picos, job: Job, macs: u64| {
            let step = Step { npu_macs: macs, ..Step::alone(self.mode, time, vec![(job, 1)]) };
            let (ns, pj) = (time.0 as f64 / 1e3, self.costs.of(&step).total.pj());
            let _ = writeln!(text, "{name},{batch},{context},{ns:.3},{pj:.0}");
        };
        let model = self.part;
        for batch in DECODING.into_iter().filter(|batch| *batch > 0) {
            let names = [
                ("qkv", Work::Qkv),
                ("projection", Work::Projection),
                ("ffn", Work::Ffn),
                ("head", Work::Head),
            ];
            for (name, work) in names {
                let (time, job) = (self.times.npu(work, batch, 1), Job::Matrix { work, npu: batch, pim: 0 });
                row(name, batch, 0, time.total(), job, model.weights(work) * u64::from(batch));
            }
            for context in CONTEXTS {
                let job = Job::Attention { device: Device::Pim, contexts: vec![context; batch as usize] };
                row("attention", batch, context, self.times.mha_pim(batch, context), job, 0);
            }
        }
        text
    }

    /// Fails if the times end before the tables.
    pub fn check(&self) -> Result<()> {
        let (requests, context) = self.times.limits();
        in_range("requests of the tables", DECODING[9], 1, requests)?;
        in_range("context of the tables", FIT_END, 1, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_config::LlmShape;
    use ndp_energy::{HbmConstants, NpuConstants};
    use ndp_librapim::offloading::AnalyticTimes;

    #[test]
    fn tables_have_the_times_of_the_devices_and_the_line_is_near_them() {
        let (hardware, memory) = (Hardware::default(), HbmConfig::default());
        let part = Model::of(&LlmShape::preset("llama2-7b").unwrap());
        let times = AnalyticTimes::new(&part, &hardware, true);
        let constants = HbmConstants::load("hbm2-8gb").unwrap();
        let costs =
            StepCosts::new(&part, &hardware, &constants, &NpuConstants::load("npu-65tflops").unwrap());
        let tables = Tables {
            part: &part,
            hardware: &hardware,
            memory: &memory,
            times: &times,
            costs: &costs,
            mode: Mode::DexDbo,
        };
        tables.check().unwrap();
        let value = |text: &str, key: &str| -> f64 {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap();
            line.rsplit(',').next().unwrap().parse().unwrap()
        };
        let near = |found: f64, time: Picos| assert!((found - time.us()).abs() <= 5e-4, "{found} {time:?}");
        let (dense, attention) = (tables.dense(), tables.attention());
        // LLMServingSim's sum for a layer is the time model's, up to the order of two additions.
        let of = |name: &str| value(&dense, &format!("{name},64,"));
        let layer = 2.0 * of("layernorm")
            + of("qkv_proj")
            + of("o_proj")
            + of("gate_up_proj")
            + of("act_fn")
            + of("down_proj");
        let model =
            [times.npu(Work::Qkv, 64, 1), times.npu(Work::Projection, 64, 1), times.npu(Work::Ffn, 64, 1)];
        let expected: f64 = model.iter().map(|time| time.total().us()).sum();
        assert!((layer / expected - 1.0).abs() < 1e-3, "{layer} {expected}");
        near(value(&attention, "0,0,32,1024,"), times.mha_pim(32, 1024));
        let prompt = value(&attention, "256,0,0,0,");
        near(value(&attention, "256,0,32,1024,") - prompt, times.mha_pim(32, 1024));
        assert!(value(&attention, "256,512,0,0,") > 2.0 * prompt, "a history of twice the chunk");
        assert!(attention.lines().skip(1).all(|line| line.split(',').count() == 5));
        let energies = tables.energies();
        assert_eq!(energies.lines().count(), 1 + 9 * (4 + CONTEXTS.len()));
        let one = value(&energies, "attention,16,1024,");
        assert!((value(&energies, "attention,64,1024,") / one / 4.0 - 1.0).abs() < 0.3);
        let line = PimLine::fit(&AnalyticTimes::new(&reference_model(), &hardware, true), &hardware);
        assert!(line.slope > 0.0 && line.worst < 0.05, "{line:?}");
        let [idle, busy] = tables.milliwatts();
        assert!(0.0 < idle && idle < busy, "{idle} {busy}");
        let ini = tables.pim_ini();
        for expected in [
            "bankgroups = 4\n",
            "columns = 128\n",
            "channel_size = 256\n",
            "data_rate = 2000 # MT/s\n",
            "CL = 14\n",
        ] {
            assert!(ini.contains(expected), "{ini}");
        }
    }
}
