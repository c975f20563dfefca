//! What "LLM in a flash", version 1, states in its evaluation (section 4), and of hardware and windows before.
//!
//! Windows are inputs of the policies: a window of five tokens holds 24 % of the MLP of OPT-6.7B and lacks 2.4 % for a token (section 4.1), one of
//! four 33 and 3.1 % of Falcon-7B (4.2). Version 1 does not have the tables of latencies that later ones have.

use super::measured::Text;
use super::{Bar, Item, Study, TokenCost, at_least, at_most, contradicted, item, known, missing};
use crate::error::SystemsError;
use crate::machine::{Machine, Workload};
use crate::policies::flash::{Technique, chunks, fixed_bytes, memory_bytes, run_with, statement};
use crate::run::{Device, Run};
use ndp_config::{BlockKind, LlmShape, Ssd, SystemConfig};

type Value = Result<f64, SystemsError>;

/// A model on one of the two machines.
#[derive(Clone, Copy)]
struct Case {
    system: &'static str,
    ssd: &'static str,
    model: &'static str,
    /// 2 for weights of 32 bits, 1 for 16.
    width: f64,
}

/// OPT-6.7B in 16 bits on the M1 Max: Table 2.
const OPT_16: Case = Case { system: "m1-max", ssd: "flash-m1", model: "opt-6.7b", width: 1.0 };
/// The same in 32 bits: section 4.1.
const OPT_32: Case = Case { width: 2.0, ..OPT_16 };
/// Falcon-7B in 32 bits: section 4.2.
const FALCON_32: Case = Case { model: "falcon-7b", ..OPT_32 };
/// OPT-6.7B in 16 bits on the machine with the GPU: section 4.1.
const OPT_GPU: Case = Case { system: "pc-high", ssd: "flash-linux", ..OPT_16 };

impl Case {
    fn work(self) -> Result<Workload, SystemsError> {
        Workload::new(&LlmShape::preset(self.model)?, 128, 128, 1)
    }

    /// Whatever follows from a run.
    fn on<T>(
        self,
        study: &Study<'_>,
        technique: Technique,
        value: impl FnOnce(&Machine<'_>, Run) -> Result<T, SystemsError>,
    ) -> Result<T, SystemsError> {
        let system = SystemConfig::clone(&*study.system(self.system)?).with_ssd(Ssd::preset(self.ssd)?);
        study.on(&system, "hermes", |machine| {
            value(machine, run_with("flash", machine, &self.work()?, technique, self.width)?)
        })
    }

    fn run(self, study: &Study<'_>, technique: Technique) -> Result<Run, SystemsError> {
        self.on(study, technique, |_, run| Ok(run))
    }

    fn bar(self, figure: &'static str, technique: Technique) -> Bar {
        let name = match technique {
            Technique::Naive => "all read",
            Technique::Half => "half in memory",
            Technique::Predictor => "predictor",
            Technique::Window => "window",
            Technique::Bundles => "bundles",
        };
        let computes = if self.system == "pc-high" { "GPU of pc-high" } else { self.system };
        Bar {
            figure,
            system: format!("{name} on {computes}, SSD {}", self.ssd),
            model: format!("{}, {} bits", self.model, 16.0 * self.width),
            prompt: 128,
            output: 128,
            batch: 1,
            cost: Box::new(move |study| {
                self.on(study, technique, |machine, run| TokenCost::of(machine, &run))
            }),
        }
    }

    /// Milliseconds of reading from flash for a token.
    fn read_ms(self, study: &Study<'_>, technique: Technique) -> Value {
        Ok(self.run(study, technique)?.token.busy_ns(Device::Ssd) / 1e6)
    }

    /// Milliseconds of memory management, copies to the GPU included.
    fn manage_ms(self, study: &Study<'_>) -> Value {
        let token = self.run(study, Technique::Bundles)?.token;
        Ok((token.ns_of("manage memory") + token.ns_of("copy to the GPU")) / 1e6)
    }

    /// All that a token does with memory and flash.
    fn memory_ms(self, study: &Study<'_>) -> Value {
        Ok(self.read_ms(study, Technique::Bundles)? + self.manage_ms(study)?)
    }

    /// GB that are read for a token.
    fn read_gb(self, technique: Technique) -> Value {
        let [count, bytes] = chunks(&self.work()?, technique, self.width);
        Ok(count * bytes / 1e9)
    }

    /// GB/s of reading.
    fn rate(self, study: &Study<'_>, technique: Technique) -> Value {
        Ok(self.read_gb(technique)? / self.read_ms(study, technique)? * 1e3)
    }

    /// GB that stay in memory.
    fn memory_gb(self, technique: Technique) -> Value {
        Ok(memory_bytes(&self.work()?, technique, self.width) / 1e9)
    }

    /// Percent of the model: embeddings, attention, predictor.
    fn fixed(self, index: usize) -> Value {
        let work = self.work()?;
        Ok(100.0 * fixed_bytes(&work, 1.0)[index] / work.weight_bytes())
    }

    /// Percent of the model: the window of its MLP.
    fn window(self) -> Value {
        let work = self.work()?;
        Ok(100.0 * statement(&work.model).window * work.block_bytes(BlockKind::Mlp) / work.weight_bytes())
    }

    /// Percent of the model in memory.
    fn in_memory(self) -> Value {
        Ok(100.0 * self.memory_gb(Technique::Bundles)? * 1e9 / (self.work()?.weight_bytes() * self.width))
    }

    /// Percent of the model: its whole MLP.
    fn mlp(self) -> Value {
        let work = self.work()?;
        Ok(100.0 * work.block_bytes(BlockKind::Mlp) / work.weight_bytes())
    }

    /// A token without the paper's techniques over one with them, computation included.
    fn speed_up(self, study: &Study<'_>, naive: Technique) -> Value {
        Ok(self.run(study, naive)?.token.ns() / self.run(study, Technique::Bundles)?.token.ns())
    }

    /// The same without computation.
    fn memory_speed_up(self, study: &Study<'_>) -> Value {
        Ok(self.read_ms(study, Technique::Half)? / self.memory_ms(study)?)
    }
}

/// KiB of a chunk.
fn chunk_kib(case: Case) -> Value {
    let [_, bytes] = chunks(&case.work()?, Technique::Bundles, case.width);
    Ok(bytes / 1024.0)
}

/// Why synthetic traces need fewer neurons for a window.
const SIMILAR: &str = "the synthetic traces are fitted to Hermes, section III-B1, where adjacent tokens share 90 % of their neurons; 24 % for five tokens and \
     10 % for one (section 4.1) mean that they share at most 65 %";

/// All of them.
pub const ITEMS: &[Item] = &[
    item("section 2.2", "1 GiB in sequence, at least 6 GiB/s", "GB/s", 6.44, |_| {
        Ok(f64::from(1 << 30) / Ssd::preset("flash-m1")?.read_ns(1, 1 << 30) as f64)
    }),
    missing("section 3.2", "coactivation of a neuron with its closest friend", "%", 95.0, "needs the model"),
    missing(
        "Fig. 5c",
        "coactivation of a neuron with its third closest friend",
        "%",
        86.0,
        "needs the model",
    ),
    missing("Table 1", "accuracy with predictors, Arc Easy", "%", 66.2, "needs the model and its tasks"),
    missing("Table 1", "accuracy with predictors, Arc Challenge", "%", 30.6, "needs the model and its tasks"),
    missing("Table 1", "accuracy with predictors, HellaSwag", "%", 49.8, "needs the model and its tasks"),
    item("Table 2", "nothing: in memory", "GB", 0.0, |_| OPT_16.memory_gb(Technique::Naive)),
    item("Table 2", "nothing: read for a token", "GB", 13.4, |_| OPT_16.read_gb(Technique::Naive)),
    item("Table 2", "nothing: rate of reading", "GB/s", 6.1, |s| OPT_16.rate(s, Technique::Naive)),
    item("Table 2", "nothing: time of reading", "ms", 2130.0, |s| OPT_16.read_ms(s, Technique::Naive)),
    item("Table 2", "half in memory: in memory", "GB", 6.7, |_| OPT_16.memory_gb(Technique::Half)),
    item("Table 2", "half in memory: read for a token", "GB", 6.7, |_| OPT_16.read_gb(Technique::Half)),
    item("Table 2", "half in memory: rate of reading", "GB/s", 6.1, |s| OPT_16.rate(s, Technique::Half)),
    item("Table 2", "half in memory: time of reading", "ms", 1090.0, |s| OPT_16.read_ms(s, Technique::Half)),
    item("Table 2", "predictor: in memory", "GB", 4.8, |_| OPT_16.memory_gb(Technique::Predictor)),
    item("Table 2", "predictor: read for a token", "GB", 0.9, |_| OPT_16.read_gb(Technique::Predictor)),
    item("Table 2", "predictor: rate of reading", "GB/s", 1.25, |s| OPT_16.rate(s, Technique::Predictor)),
    item("Table 2", "predictor: time of reading", "ms", 738.0, |s| OPT_16.read_ms(s, Technique::Predictor)),
    item("Table 2", "window: in memory", "GB", 6.5, |_| OPT_16.memory_gb(Technique::Window)),
    item("Table 2", "window: read for a token", "GB", 0.2, |_| OPT_16.read_gb(Technique::Window)),
    item("Table 2", "window: rate of reading", "GB/s", 1.25, |s| OPT_16.rate(s, Technique::Window)),
    item("Table 2", "window: time of reading", "ms", 164.0, |s| OPT_16.read_ms(s, Technique::Window)),
    item("Table 2", "bundles: in memory", "GB", 6.5, |_| OPT_16.memory_gb(Technique::Bundles)),
    item("Table 2", "bundles: read for a token", "GB", 0.2, |_| OPT_16.read_gb(Technique::Bundles)),
    item("Table 2", "bundles: rate of reading", "GB/s", 2.25, |s| OPT_16.rate(s, Technique::Bundles)),
    item("Table 2", "bundles: time of reading", "ms", 87.0, |s| OPT_16.read_ms(s, Technique::Bundles)),
    contradicted(
        item("section 3.1", "read for a token, share of the MLP with window and predictor", "%", 2.0, |_| {
            Ok(100.0 * statement(&OPT_16.work()?.model).new)
        }),
        "section 1 has 2 %, section 4.1 has 2.4 %",
    ),
    item(
        "section 4",
        "keys and values of 2,048 tokens, one layer's formula for all layers",
        "% of the model",
        8.0,
        |_| {
            let work = OPT_16.work()?;
            Ok(100.0 * 2048.0 * work.model.kv_bytes_per_token() as f64 / work.weight_bytes())
        },
    ),
    item("section 4.1", "predicted to be active, OPT-6.7B", "% of the MLP", 10.0, |_| {
        Ok(100.0 * statement(&OPT_16.work()?.model).predicted())
    }),
    contradicted(
        item("section 4.1", "predictor, OPT-6.7B", "% of the model", 1.25, |_| OPT_16.fixed(2)),
        "1.25 % are what rank 128 in all layers gives, but the last four have rank 1,024",
    ),
    item("section 4.1", "embeddings, OPT-6.7B", "% of the model", 3.0, |_| OPT_16.fixed(0)),
    item("section 4.1", "attention, OPT-6.7B", "% of the model", 32.3, |_| OPT_16.fixed(1)),
    item("section 4.1", "MLP, OPT-6.7B", "% of the model", 64.62, |_| OPT_16.mlp()),
    item("section 4.1", "window of the MLP, OPT-6.7B", "% of the model", 15.5, |_| OPT_16.window()),
    item("section 4.1", "all that is in memory, OPT-6.7B", "% of the model", 52.1, |_| OPT_16.in_memory()),
    item("section 4.1", "chunk of OPT-6.7B, 32 bits", "KiB", 32.0, |_| chunk_kib(OPT_32)),
    item("section 4.1", "reading, OPT-6.7B, 32 bits", "ms", 125.0, |s| OPT_32.read_ms(s, Technique::Bundles)),
    item("section 4.1", "memory management, OPT-6.7B, 32 bits", "ms", 65.0, |s| OPT_32.manage_ms(s)),
    at_most(item("section 4.1", "reading and memory management, OPT-6.7B, 32 bits", "ms", 190.0, |s| {
        OPT_32.memory_ms(s)
    })),
    contradicted(
        item("section 4.1", "reading half of OPT-6.7B, 32 bits", "ms", 2330.0, |s| {
            OPT_32.read_ms(s, Technique::Half)
        }),
        "13.4 GB at 6.1 GB/s are 2,197 ms; 2,330 ms need 5.75 GB/s",
    ),
    item("section 4.1", "half of OPT-6.7B, 32 bits", "GB", 13.4, |_| OPT_32.read_gb(Technique::Half)),
    item("section 4.1", "reading, OPT-6.7B, 16 bits, with GPU", "ms", 40.5, |s| {
        OPT_GPU.read_ms(s, Technique::Bundles)
    }),
    item("section 4.1", "memory management, OPT-6.7B, 16 bits, with GPU", "ms", 40.0, |s| {
        OPT_GPU.manage_ms(s)
    }),
    at_least(item("section 4.1", "reading all of OPT-6.7B, 16 bits, with GPU", "ms", 2000.0, |s| {
        OPT_GPU.read_ms(s, Technique::Naive)
    })),
    known(
        item(
            "Fig. 4",
            "five tokens, OPT's statistics of the other papers, synthetic trace",
            "% of the MLP",
            24.0,
            |_| Ok(100.0 * Text::Hermes.aggregated(5)),
        ),
        SIMILAR,
    ),
    known(
        item(
            "Fig. 4",
            "the sixth of six tokens, OPT's statistics of the other papers, synthetic trace",
            "% of the MLP",
            2.4,
            |_| Ok(100.0 * (Text::Hermes.aggregated(6) - Text::Hermes.aggregated(5))),
        ),
        SIMILAR,
    ),
    item("Fig. 4", "five tokens, a synthetic trace of its own statistics", "% of the MLP", 24.0, |_| {
        Ok(100.0 * Text::Flash.aggregated(5))
    }),
    item(
        "Fig. 4",
        "the sixth of six tokens, a synthetic trace of its own statistics",
        "% of the MLP",
        2.4,
        |_| Ok(100.0 * (Text::Flash.aggregated(6) - Text::Flash.aggregated(5))),
    ),
    item("section 4.2", "predictor, Falcon-7B", "% of the model", 4.0, |_| FALCON_32.fixed(2)),
    item("section 4.2", "embeddings, Falcon-7B", "% of the model", 4.2, |_| FALCON_32.fixed(0)),
    item("section 4.2", "attention, Falcon-7B", "% of the model", 19.4, |_| FALCON_32.fixed(1)),
    item("section 4.2", "MLP, Falcon-7B", "% of the model", 76.8, |_| FALCON_32.mlp()),
    item("section 4.2", "window of the MLP, Falcon-7B", "% of the model", 25.3, |_| FALCON_32.window()),
    item("section 4.2", "all that is in memory, Falcon-7B", "% of the model", 52.93, |_| {
        FALCON_32.in_memory()
    }),
    item("section 4.2", "chunk of Falcon-7B, 32 bits", "KiB", 35.5, |_| chunk_kib(FALCON_32)),
    item("section 4.2", "reading, Falcon-7B, 32 bits", "ms", 161.0, |s| {
        FALCON_32.read_ms(s, Technique::Bundles)
    }),
    item("section 4.2", "memory management, Falcon-7B, 32 bits", "ms", 90.0, |s| FALCON_32.manage_ms(s)),
    item("section 4.2", "reading and memory management, Falcon-7B, 32 bits", "ms", 250.0, |s| {
        FALCON_32.memory_ms(s)
    }),
    item("section 4.2", "reading half of Falcon-7B, 32 bits", "ms", 2330.0, |s| {
        FALCON_32.read_ms(s, Technique::Half)
    }),
    item("section 4.2", "over reading half of it, Falcon-7B, 9 to 10", "x", 9.5, |s| {
        FALCON_32.memory_speed_up(s)
    }),
    item("abstract", "over reading half of it, CPU, 4 to 5", "x", 4.5, |s| {
        OPT_32.speed_up(s, Technique::Half)
    }),
    item("abstract", "over reading all of it, GPU, 20 to 25", "x", 22.5, |s| {
        OPT_GPU.speed_up(s, Technique::Naive)
    }),
];

/// The bars of Table 2, of section 4 and of the abstract.
pub fn bars() -> Vec<Bar> {
    use Technique::{Bundles, Half, Naive, Predictor, Window};
    let mut all: Vec<Bar> =
        [Naive, Half, Predictor, Window, Bundles].map(|t| OPT_16.bar("Table 2", t)).into();
    all.extend([Half, Bundles].map(|technique| OPT_32.bar("section 4.1", technique)));
    all.extend([Naive, Bundles].map(|technique| OPT_GPU.bar("section 4.1", technique)));
    all.extend([Half, Bundles].map(|technique| FALCON_32.bar("section 4.2", technique)));
    all
}
