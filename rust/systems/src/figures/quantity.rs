//! Meaning of the names in formulas: functions, and quantities of a case.
//!
//! | function | value |
//! | --- | --- |
//! | `at(case.., f)`, `sum(cases.., f)` | `f` in that case; the sum over all of them |
//! | `mean(cases.., f)`, `least(..)`, `greatest(..)` | over all cases |
//! | `min(f, g)`, `max(f, g)` | of two numbers |
//! | `assuming(key, f, g)` | `g` if an assumption has the value `f` |
//! | `where-least(setting, cases.., f)` | the setting's value in the case with the least `f` |
//! | `first-possible(setting, cases.., f)` | the setting's value in the first case in which `f` can be computed |
//! | `first-sufficient(setting, cases.., f)` | in the first case with at least 95 % of the next case's `f` |
//! | `last-before(setting, cases.., f)` | in the case before the first one in which `f` is not 0 |
//!
//! A case is a named one of the table, or a setting such as `batch=4`; several are combined. Names have hyphens for
//! blanks.

use super::formula::Formula;
use super::librapim;
use super::measured::{Skewed, Text};
use super::table::Table;
use super::{Paper, Study, TokenCost};
use crate::ablation::{PolicyTimes, TraceStudy};
use crate::assumption::Key;
use crate::machine::{Machine, Workload};
use crate::policies::Policy;
use crate::policies::flash::{Technique, chunks, fixed_bytes, memory_bytes, run_with, statement};
use crate::run::{Device, Run};
use ndp_config::{Activation, BlockKind, HbmConfig, LlmFamily, LlmShape, Ssd, SystemConfig, WeightFormat};
use ndp_energy::Energy;
use ndp_files::{Error, Result, refusal};
use ndp_hermes::scheduler::Policy as Scheduling;
use ndp_librapim::offloading::{Hardware, Mode, Model};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::str::FromStr;

const SUFFICIENT: f64 = 0.95;

type Value = Result<f64>;

pub fn unknown(kind: &str, name: &str) -> Error {
    refusal!("not a valid configuration: unknown {kind} '{name}'")
}

fn device(name: &str) -> Result<Device> {
    Device::named(name).ok_or_else(|| unknown("device", name))
}

/// Mode of a system in LibraPIM's evaluation.
fn mode(name: &str) -> Result<Mode> {
    let found = Mode::ALL.into_iter().find(|mode| mode.system() == spaced(name));
    found.ok_or_else(|| unknown("system", name))
}

fn scheduling(name: &str) -> Result<Scheduling> {
    Scheduling::named(name).ok_or_else(|| unknown("scheduling", name))
}

fn technique(name: &str) -> Result<Technique> {
    Technique::named(&spaced(name)).ok_or_else(|| unknown("technique", name))
}

fn assumption(name: &str) -> Result<Key> {
    Key::named(name).ok_or_else(|| unknown("assumption", name))
}

fn parsed<T: FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| unknown("number", text))
}

/// Hyphens in formulas stand for blanks.
fn spaced(name: &str) -> String {
    name.replace('-', " ")
}

/// Settings such as `model` and `batch`.
#[derive(Clone, Debug, Default)]
pub struct Case(BTreeMap<String, String>);

impl Case {
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut case = self.clone();
        case.0.insert(name.to_owned(), value.to_owned());
        case
    }

    fn text(&self, name: &str) -> Result<&str> {
        self.0.get(name).map(String::as_str).ok_or_else(|| unknown("setting", name))
    }

    pub fn number<T: FromStr>(&self, name: &str) -> Result<T> {
        parsed(self.text(name)?)
    }

    /// Replaces names in braces by their settings.
    pub fn in_words(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    /// LLaMA2(SwiGLU)-13B is LLaMA2-13B under a name of its own, for which PowerInfer states a share of active neurons.
    fn model(&self) -> Result<LlmShape> {
        let name = self.text("model")?;
        let weights = match self.text("format") {
            Ok(format) => WeightFormat::named(format).ok_or_else(|| unknown("format", format))?,
            Err(_) => WeightFormat::Fp16,
        };
        if name != "llama2-13b-swiglu" {
            return Ok(LlmShape::preset(name)?.with_weights(weights));
        }
        let family = LlmFamily {
            kv_heads: 40,
            head_width: None,
            gated: true,
            activation: Activation::Silu,
            biased: false,
            tied_embeddings: false,
            rotary: true,
        };
        Ok(LlmShape::opt_like(name, 40, 5120, 40, 13824, 32000)?.of_family(family)?.with_weights(weights))
    }

    fn work(&self) -> Result<Workload> {
        Workload::new(&self.model()?, self.number("prompt")?, self.number("output")?, self.number("batch")?)
    }

    fn design(&self) -> String {
        match self.text("multipliers") {
            Ok("256") | Err(_) => "hermes".to_owned(),
            Ok(multipliers) => format!("hermes-{multipliers}"),
        }
    }
}

/// Evaluates formulas in a case under a set of assumptions.
pub struct Evaluation<'a> {
    table: &'static Table,
    study: &'a Study<'a>,
    case: Case,
}

impl<'a> Evaluation<'a> {
    /// `None` is the paper's default case.
    pub fn new(paper: Paper, study: &'a Study<'a>, case: Option<&Case>) -> Result<Self> {
        let table = paper.table();
        Ok(Self { table, study, case: case.cloned().map_or_else(|| table.default_case(), Ok)? })
    }

    /// Fails as the quantities, and for an unknown name.
    pub fn value(&self, formula: &Formula) -> Value {
        match formula {
            Formula::Name(name, arguments) => self.named(name, arguments),
            Formula::Operation(operator, operands) => {
                let [left, right] = [self.value(&operands[0])?, self.value(&operands[1])?];
                Ok(match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    '/' => left / right,
                    '<' => f64::from(u8::from(left < right)),
                    _ => f64::from(u8::from(left > right)),
                })
            }
        }
    }

    /// Values of the last argument, a formula, in the cases of the others.
    fn each(&self, arguments: &[Formula]) -> Result<Vec<(Case, Value)>> {
        let Some((formula, cases)) = arguments.split_last() else { return Err(unknown("formula", "")) };
        let cases =
            self.table.cases(self.case.clone(), cases.iter().map(|case| case.word().unwrap_or_default()))?;
        Ok(cases
            .into_iter()
            .map(|case| {
                let there = Self { case: case.clone(), ..*self };
                (case, there.value(formula))
            })
            .collect())
    }

    /// A function, a named formula, a setting or a number; else a quantity.
    fn named(&self, name: &str, arguments: &[Formula]) -> Value {
        let all =
            || self.each(arguments)?.into_iter().map(|(_, value)| value).collect::<Result<Vec<f64>, _>>();
        match (name, arguments) {
            ("at" | "sum", _) => Ok(all()?.iter().sum()),
            ("mean", _) => all().map(|all| all.iter().sum::<f64>() / all.len() as f64),
            ("least", _) => Ok(all()?.into_iter().fold(f64::INFINITY, f64::min)),
            ("greatest", _) => Ok(all()?.into_iter().fold(0.0, f64::max)),
            ("min", [a, b]) => Ok(self.value(a)?.min(self.value(b)?)),
            ("max", [a, b]) => Ok(self.value(a)?.max(self.value(b)?)),
            ("assuming", [key, value, formula]) => {
                let key = assumption(key.word().unwrap_or_default())?;
                let set = self.study.assumptions().with(key, self.value(value)?);
                let study = &self.study.under(&set);
                Evaluation { table: self.table, study, case: self.case.clone() }.value(formula)
            }
            ("of-cells", [area]) => Ok(librapim::of_cells(self.value(area)?)),
            (
                "where-least" | "first-possible" | "first-sufficient" | "last-before",
                [setting, cases @ ..],
            ) => self.found(name, setting.word().unwrap_or_default(), cases),
            (_, []) if self.table.formulas.contains_key(name) => self.value(&self.table.formulas[name]),
            (_, []) if self.case.0.contains_key(name) => self.case.number(name),
            (_, []) if name.starts_with(|first: char| first.is_ascii_digit()) => parsed(name),
            _ => {
                let words = arguments.iter().map(|argument| argument.word().unwrap_or_default());
                self.quantity(name, &words.collect::<Vec<_>>())
            }
        }
    }

    /// A setting's value in the case that a function selects.
    fn found(&self, function: &str, setting: &str, arguments: &[Formula]) -> Value {
        let (cases, values): (Vec<Case>, Vec<Value>) = self.each(arguments)?.into_iter().unzip();
        let number = |index: usize| cases[index].number(setting);
        if function == "first-possible" {
            return values.iter().position(Value::is_ok).map_or(Ok(f64::NAN), number);
        }
        let values = values.into_iter().collect::<Result<Vec<f64>, _>>()?;
        let last = cases.len() - 1;
        match function {
            "where-least" => number(
                (0..last).rfold(last, |least, one| if values[one] <= values[least] { one } else { least }),
            ),
            "first-sufficient" => {
                number(values.windows(2).position(|pair| pair[0] >= SUFFICIENT * pair[1]).unwrap_or(last))
            }
            _ => match values.iter().position(|value| *value != 0.0) {
                Some(0) => Ok(0.0),
                found => number(found.unwrap_or(cases.len()) - 1),
            },
        }
    }

    /// Calls `value` with the case's system: its bus, number of DIMMs and SSD may differ.
    fn on<T>(&self, value: impl FnOnce(&Machine<'_>) -> Result<T>) -> Result<T> {
        value(&Machine {
            system: &self.system()?,
            assumptions: self.study.assumptions(),
            dimms: &*self.study.designs().get(&self.case.design())?,
        })
    }

    fn system(&self) -> Result<SystemConfig> {
        let named = |setting| self.study.designs().system(self.case.text(setting)?);
        let mut system = SystemConfig::clone(&*named("system")?);
        if self.case.text("bus").is_ok() {
            system = system.with_bus_gbps(named("bus")?.bus().bandwidth_gbps)?;
        }
        if self.case.text("dimms").is_ok() {
            system = system.with_dimms(self.case.number("dimms")?)?;
        }
        Ok(match self.case.text("ssd") {
            Ok(ssd) => system.with_ssd(Ssd::preset(ssd)?),
            Err(_) => system,
        })
    }

    /// Runs a policy, or a technique of LLM in a flash with any width of weights.
    fn run(&self, who: &str) -> Result<Run> {
        self.on(|machine| {
            let work = self.case.work()?;
            match technique(who) {
                Ok(technique) => run_with("flash", (machine, &work), technique, self.case.number("width")?),
                Err(_) => Policy::named(who).ok_or_else(|| unknown("policy", who))?.run(machine, &work),
            }
        })
    }

    /// Rate, times of prompt and token, and share on the GPU of a policy: on the exact machine, if the study has it and it
    /// runs the policy.
    fn whole(&self, who: &str) -> Result<Run> {
        self.exact(who)?.map_or_else(|| self.run(who), |(run, _)| Ok(run))
    }

    fn exact(&self, who: &str) -> Result<Option<(Run, Energy)>> {
        let Some(policy) = Policy::named(who) else { return Ok(None) };
        self.on(|machine| self.study.run(machine, policy, &self.case.work()?))
    }

    /// NPU and memory with the case's arrays.
    fn hardware(&self) -> Result<Hardware> {
        let mut hardware = librapim::hardware(self.study.assumptions());
        if self.case.text("array-side").is_ok() {
            hardware.npu.array_side = self.case.number("array-side")?;
        }
        Ok(hardware)
    }

    fn point(&self, who: &str) -> Result<librapim::Point> {
        let (batch, sequence) = (self.case.number("batch")?, self.case.number("sequence")?);
        let (hardware, model) = (self.hardware()?, self.case.text("model")?);
        let measured = self.study.memory(model, &hardware)?;
        librapim::point((&hardware, measured.as_ref()), mode(who)?, model, batch, sequence)
    }

    fn step_energy(&self, who: &str) -> Result<Energy> {
        let (batch, sequence) = (self.case.number("batch")?, self.case.number("sequence")?);
        let model = self.case.text("model")?;
        let hardware = librapim::hardware(self.study.assumptions());
        let measured = self.study.memory(model, &hardware)?;
        let least_gain = self.study.assumptions().get(Key::FfnGain);
        let times = (&hardware, measured.as_ref());
        librapim::step_energy(times, mode(who)?, model, (batch, sequence), least_gain)
    }

    pub fn token_cost(&self) -> Result<TokenCost> {
        let who = self.case.text("who")?;
        if mode(who).is_err() {
            if let Some((run, joules_per_token)) = self.exact(who)? {
                return Ok(TokenCost { tokens_per_second: run.tokens_per_second(), joules_per_token });
            }
            let run = self.run(who)?;
            return self.on(|machine| TokenCost::of(machine, &run));
        }
        let batch: u32 = self.case.number("batch")?;
        Ok(TokenCost {
            tokens_per_second: 1e3 * f64::from(batch) / self.point(who)?.ms,
            joules_per_token: self.step_energy(who)?.per(batch.into()),
        })
    }

    fn quantity(&self, name: &str, words: &[&str]) -> Value {
        let (case, study) = (&self.case, self.study);
        Ok(match (name, words) {
            // A request, or a token in the middle of the output.
            ("rate", [who]) => self.whole(who)?.tokens_per_second(),
            ("decode", [who]) => self.whole(who)?.decode_tokens_per_second(),
            ("time", [who]) => self.whole(who)?.ns(),
            ("prefill", [who]) => self.whole(who)?.prefill_share(),
            ("resident", [who]) => self.whole(who)?.resident,
            ("token", [who]) => self.whole(who)?.token.ns(),
            // The machine gives none of these.
            ("time", [who, step]) => self.run(who)?.token.ns_of(&spaced(step)),
            ("busy", [who, busy]) => self.run(who)?.token.busy_ns(device(busy)?),
            ("waiting", [who, slowest]) => self.run(who)?.token.ns_waiting_for(device(slowest)?),
            ("bytes", [who, step, reader]) => self.run(who)?.token.bytes_of(&spaced(step), device(reader)?),
            ("chunks", [who]) => chunks(&case.work()?, technique(who)?, case.number("width")?)[0],
            ("chunk-bytes", [who]) => chunks(&case.work()?, technique(who)?, case.number("width")?)[1],
            ("memory", [who]) => memory_bytes(&case.work()?, technique(who)?, case.number("width")?),
            ("layers", []) => case.model()?.layers().into(),
            ("heads", []) => case.model()?.heads().into(),
            ("hidden", []) => case.model()?.hidden().into(),
            ("ffn", []) => case.model()?.ffn().into(),
            ("neurons", []) => case.model()?.neurons() as f64,
            ("kv-bytes", []) => case.model()?.kv_bytes_per_token() as f64,
            ("weights", []) => case.work()?.weight_bytes(),
            ("layer-bytes", []) => case.work()?.layer_bytes(),
            ("mlp-bytes", []) => case.work()?.block_bytes(BlockKind::Mlp),
            ("ffn-weights", []) => Model::of(&case.model()?).ffn_weights() as f64,
            ("attention-macs", [tokens]) => Model::of(&case.model()?).attention_macs(parsed(tokens)?) as f64,
            ("embedding-bytes", []) => fixed_bytes(&case.work()?, 1.0)[0],
            ("attention-bytes", []) => fixed_bytes(&case.work()?, 1.0)[1],
            ("predictor-bytes", []) => fixed_bytes(&case.work()?, 1.0)[2],
            ("stated-window", []) => statement(&case.model()?).window,
            ("stated-new", []) => statement(&case.model()?).new,
            ("stated-predicted", []) => statement(&case.model()?).predicted(),
            ("assumed", [key]) => study.assumptions().get(assumption(key)?),
            ("usd", []) => self.system()?.usd().unwrap_or(f64::NAN),
            ("gpu-usd", []) => self.system()?.price().map_or(f64::NAN, |price| price.gpu_usd),
            ("link", []) => self.system()?.dimms().link_gbps,
            ("channel", []) => self.system()?.channel().bandwidth_gbps,
            ("channel-dimms", []) => self.system()?.channel().dimms.into(),
            ("predictor-ps", []) => self.system()?.predictor_ps(case.model()?.neurons() as usize) as f64,
            ("ssd-ns", [count, bytes]) => {
                Ssd::preset(case.text("ssd")?)?.read_ns(parsed(count)?, parsed(bytes)?) as f64
            }
            ("crossover", [share, kind]) => self.crossover(parsed(share)?, kind)?,
            ("skew", [model, of]) => skew(model, of)?,
            ("aggregated", [text, tokens]) => match *text {
                "hermes" => Text::Hermes.aggregated(parsed(tokens)?),
                _ => Text::Flash.aggregated(parsed(tokens)?),
            },
            ("adjacent", []) => self.trace()?.similarity[0],
            ("distant", []) => self.trace()?.similarity[1],
            ("parent", []) => self.trace()?.layer,
            ("hot-change", []) => self.trace()?.hot_change,
            ("accuracy", []) => self.trace()?.accuracy,
            ("oracle", []) => self.trace()?.oracle_us,
            ("mlp", [policy]) => match self.study.mlp_us(self.case.text("model")?, scheduling(policy)?)? {
                Some(us) => us,
                None => self.of_policy(policy, |found| found.mlp_us)?,
            },
            ("imbalance", [policy]) => self.of_policy(policy, |found| found.imbalance)?,
            ("remapped", [policy]) => self.of_policy(policy, |found| found.windows[1])?,
            // A step on an NPU with HBM-PIM, and its hardware.
            ("ms", [who]) => self.point(who)?.ms,
            ("npu", [who]) => self.point(who)?.npu,
            ("pim", [who]) => self.point(who)?.pim,
            ("npu-busy", [who]) => self.point(who)?.npu_busy,
            ("pim-busy", [who]) => self.point(who)?.pim_busy,
            ("ffn-moved", [who]) => self.point(who)?.ffn_moved,
            ("joules", [who]) => self.step_energy(who)?.joules(),
            ("mac-column-us", [banks]) => self.hardware()?.mac_column(*banks == "sliced").us(),
            ("column-elements", []) => self.hardware()?.column_elements().into(),
            ("memory-gib", []) => (HbmConfig::default().bytes() >> 30) as f64,
            ("um2", [banks, module]) => librapim::um2(*banks == "sliced", module)?,
            _ => return Err(unknown("quantity", name)),
        })
    }

    fn trace(&self) -> Result<Rc<TraceStudy>> {
        self.study.trace(self.case.text("model")?)
    }

    fn of_policy(&self, policy: &str, number: fn(&PolicyTimes) -> f64) -> Value {
        Ok(self.trace()?.policy(scheduling(policy)?).map_or(f64::NAN, number))
    }

    /// Number of vectors above which copying a share of the weights to the GPU beats products on the host (PowerInfer,
    /// Fig. 6).
    fn crossover(&self, share: f64, kind: &str) -> Value {
        let work = self.case.work()?;
        let all = match kind {
            "MLP" => work.block_bytes(BlockKind::Mlp),
            _ => work.block_bytes(BlockKind::Attention) + work.projection_bytes(),
        };
        let bytes = share * all / f64::from(work.model.layers());
        self.on(|machine| {
            let faster = |batch: &u32| {
                let work = Workload { batch: *batch, ..work.clone() };
                machine.bus_ns(bytes, Key::BusStream) + machine.gpu_product_ns(&work, bytes)
                    < machine.host_neurons_ns(&work, bytes, bytes)
            };
            Ok((1..=Workload::MAX_BATCH).find(faster).map_or(f64::INFINITY, f64::from))
        })
    }
}

fn skew(model: &str, of: &str) -> Value {
    let skew = match model {
        "opt" => Skewed::Opt,
        "reglu" => Skewed::ReGlu,
        _ => Skewed::SwiGlu,
    }
    .skew();
    Ok(match of {
        "block" => skew.block,
        "model" => skew.model,
        "first-half" => skew.first_half,
        _ => return Err(unknown("share", of)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Designs;
    use super::*;
    use crate::Assumptions;

    fn value(paper: Paper, text: &str) -> Result<f64, String> {
        let (set, designs) = (Assumptions::preset("stated").unwrap(), Designs::default());
        let study = Study::new(&set, &designs);
        let formula = Formula::try_from(text.to_owned()).unwrap();
        let found = Evaluation::new(paper, &study, None).and_then(|here| here.value(&formula));
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn functions_go_over_the_cases_that_they_are_given() {
        // OPT-13B, 30B and 66B have 40, 48 and 64 layers.
        for (text, expected) in [
            ("sum(opt, layers)", 152.0),
            ("mean(small, layers)", 44.0),
            ("greatest(opt, layers) - least(opt, layers)", 24.0),
            ("at(model=opt-13b, batch=3, batch - layers / 2)", -17.0),
            ("max(1, 2) - min(3, 4)", -1.0),
            ("sum(batches, batch > 2)", 3.0),
            ("where-least(batch, batches, 8 / batch)", 16.0),
            ("last-before(batch, batches, batch > 4)", 4.0),
            ("last-before(batch, batches, batch > 0)", 0.0),
            ("last-before(batch, batches, batch > 16)", 16.0),
            // 0, 0.875, 0.984, 0.998, ...
            ("first-sufficient(batch, batches, 1 - 1 / (batch * batch * batch))", 4.0),
            ("first-sufficient(batch, batches, batch)", 16.0),
            ("assuming(sync, 3, assumed(sync) + 1) + assumed(sync)", 4.0),
        ] {
            assert_eq!(value(Paper::Hermes, text).unwrap(), expected, "{text}");
        }
        // Cases of cases: each prompt with each output.
        assert_eq!(value(Paper::PowerInfer, "sum(lengths, prompt * output)").unwrap(), 192.0 * 640.0);
        assert_eq!(value(Paper::PowerInfer, "mean(lengths, high, prompt < 128)").unwrap(), 0.5);
    }

    #[test]
    fn what_has_no_meaning_is_refused_by_name() {
        for (text, expected) in [
            ("nothing", "unknown quantity 'nothing'"),
            ("layers(2)", "unknown quantity 'layers'"),
            ("layers", "unknown setting 'model'"),
            ("at(optt, layers)", "unknown case 'optt'"),
            ("at(batch=x, batch)", "unknown number 'x'"),
            ("at(model=opt-13b, rate(hermse))", "unknown policy 'hermse'"),
            ("at(model=opt-13b, busy(hermes, gpu))", "unknown device 'gpu'"),
            ("at(model=opt-13, layers)", "did you mean 'opt-13b'?"),
            ("assumed(snyc)", "unknown assumption 'snyc'"),
        ] {
            let error = value(Paper::Hermes, text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
