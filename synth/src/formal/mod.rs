//! Proofs of the hardware's properties.
//!
//! A [`Proof`] takes a block at small parameters with the properties of its modules. Yosys makes an and-inverter graph,
//! in which ABC looks for a run that breaks a property. The first cycle is a reset, and resets may come at any later
//! time. The proof assumes the assumptions of the top and proves those of modules below. Each proof has mutants for
//! which such a run has to exist: a proof that cannot fail proves nothing. Yosys simulates a found run again, names the
//! property and writes waves.
//!
//! Verdicts are kept in a folder, by Verilog, method and tools.

mod arithmetic;
mod axi;
mod bank;
mod clocks;
mod equivalence;
mod issue;
mod link;
mod list;
mod multiplier;
mod rank;
mod scheduler;

pub use list::PROOFS;

use crate::files::{create_folder, read, unwritten, write};
use crate::tools::Tool;
use ndp_files::{Error, Result, failure, refusal};
use ndp_hdl_language::mutate::{self, Mutant, Mutation};
use ndp_hdl_language::{Design, ForProver, HdlError, Module};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Any length: ABC's `pdr` finds a set of states that no run leaves (A. Bradley, VMCAI 2011).
    AnyLength,
    /// Up to this number of cycles, including the reset's: ABC's `bmc3`.
    Cycles(u32),
}

#[derive(Clone, Copy, Debug)]
pub struct Proof {
    /// The block, perhaps with a part of it.
    pub name: &'static str,
    pub says: &'static str,
    /// The module, with small parameters.
    pub module: fn() -> Result<Rc<Module>, HdlError>,
    /// Further clocks; each cycle of a run is then a step in which any of them may have an edge.
    pub clocks: &'static [&'static str],
    /// Prefixes of modules that keep only their ports: their outputs are any values in each cycle.
    pub any: &'static [&'static str],
    /// Properties of those modules, left out because another proof has them.
    pub elsewhere: &'static [&'static str],
    pub method: Method,
    /// Mutants, at least one.
    pub mutants: &'static [Mutation],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Proved,
    /// A run breaks a property.
    Refuted,
    /// No verdict within the limit.
    Open,
}

/// Result for a proof or for a mutant of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub verdict: Verdict,
    /// The properties that the run breaks.
    pub properties: Vec<String>,
    /// Time of the tools when they ran.
    pub seconds: f64,
}

/// A kept verdict, with everything that it depends on.
#[derive(Serialize, Deserialize)]
struct Kept {
    from: String,
    outcome: Outcome,
}

#[derive(Clone, Debug)]
pub struct Prover {
    pub yosys: Tool,
    /// Yosys' own ABC.
    pub abc: Tool,
    /// Limit of one run of a tool.
    pub limit: Duration,
}

impl Proof {
    pub fn design(&self) -> Result<Rc<Module>> {
        (self.module)().map_err(|e| self.unfit(e.to_string()))
    }

    /// The design with each mutant.
    ///
    /// # Errors
    /// A mutant that does not apply.
    pub fn mutated(&self) -> Result<Vec<Rc<Module>>> {
        let design = self.design()?;
        let mutated = |mutation: &Mutation| {
            let mutant = mutate::replaced(&design, mutation).map_err(|e| self.unfit(e))?;
            mutant.ok_or_else(|| self.unfit(format!("no `{}`, which a mutant replaces", mutation.at)))
        };
        self.mutants.iter().map(mutated).collect()
    }

    /// The design as Yosys reads it.
    ///
    /// # Errors
    /// Modules of one title that differ.
    pub fn verilog(&self, design: &Rc<Module>) -> Result<String> {
        let appendix = appendix(self);
        let prover = ForProver {
            any: self.any,
            elsewhere: self.elsewhere,
            one_clock: self.clocks.is_empty(),
            appendix: &appendix,
        };
        let design = Design::new(&prover.prepared(design)).map_err(|e| self.unfit(e.to_string()))?;
        Ok(design.verilog())
    }

    fn unfit(&self, reason: String) -> Error {
        refusal!("cannot build block '{}': {reason}", self.name)
    }
}

impl Prover {
    /// Proves, or takes the verdict from `folder`, where a run that breaks a property is left as `counterexample.vcd`.
    ///
    /// # Errors
    /// Errors of [`Proof::design`] and [`Proof::verilog`]; a tool that fails or is too slow; a file that cannot be
    /// written.
    pub fn prove(&self, proof: &Proof, folder: &Path) -> Result<Outcome> {
        self.verdict(proof, &proof.design()?, folder)
    }

    /// Searches each mutant: in `folder` if there is one, else in numbered folders in it.
    ///
    /// # Errors
    /// Errors of [`Prover::prove`], and [`Proof::mutated`].
    pub fn refute(&self, proof: &Proof, folder: &Path) -> Result<Vec<Outcome>> {
        let mutants = proof.mutated()?;
        let one = mutants.len() == 1;
        let place = |number: usize| if one { folder.to_owned() } else { folder.join(number.to_string()) };
        mutants.iter().enumerate().map(|(n, mutant)| self.verdict(proof, mutant, &place(n + 1))).collect()
    }

    /// Searches a mutant of the description; `None` if it is not in the proof's module.
    pub fn refute_mutant(&self, proof: &Proof, mutant: &Mutant, folder: &Path) -> Result<Option<Outcome>> {
        let mutated = mutate::replaced(&proof.design()?, mutant).map_err(|e| proof.unfit(e))?;
        mutated.map(|mutated| self.verdict(proof, &mutated, folder)).transpose()
    }

    fn verdict(&self, proof: &Proof, design: &Rc<Module>, folder: &Path) -> Result<Outcome> {
        let (search, script, verilog) =
            (self.search(proof), script(proof, design.name()), proof.verilog(design)?);
        // After its time limit `bmc3` says the same of the frames that it has done.
        let all_clear = match proof.method {
            Method::AnyLength => "Property proved".to_owned(),
            Method::Cycles(cycles) => format!("No output asserted in {cycles} frames."),
        };
        self.searched(proof.name, (&verilog, &script, &search), folder, |text| {
            if text.contains("was asserted in frame") {
                Ok((Verdict::Refuted, self.replayed(proof, folder)?))
            } else if text.contains(&all_clear) {
                Ok((Verdict::Proved, Vec::new()))
            } else {
                Ok((Verdict::Open, Vec::new()))
            }
        })
    }

    /// Runs Yosys and ABC unless the verdict is kept. `judge` reads ABC's output.
    fn searched(
        &self,
        name: &str,
        (verilog, script, search): (&str, &str, &str),
        folder: &Path,
        judge: impl FnOnce(&str) -> Result<(Verdict, Vec<String>)>,
    ) -> Result<Outcome> {
        let file = folder.join("verdict.json");
        let from = format!("{}; {}\n{search}\n{script}\n{verilog}", self.yosys.version, self.abc.version);
        let kept = std::fs::read_to_string(&file).ok();
        let kept = kept.and_then(|text| serde_json::from_str::<Kept>(&text).ok());
        if let Some(kept) = kept.filter(|kept| kept.from == from) {
            return Ok(kept.outcome);
        }
        create_folder(folder)?;
        write(&folder.join("design.v"), verilog)?;
        write(&folder.join("model.ys"), script)?;
        write(&folder.join("steps.v"), STEPS)?;
        let start = Instant::now();
        self.tool("Yosys", &self.yosys, (name, folder), &["-q", "model.ys"], "model.log")?;
        let text = self.tool("ABC", &self.abc, (name, folder), &["-c", search], "abc.log")?;
        let (verdict, properties) = judge(&text)?;
        let outcome = Outcome { verdict, properties, seconds: start.elapsed().as_secs_f64() };
        if verdict != Verdict::Open {
            let kept = serde_json::to_string(&Kept { from, outcome: outcome.clone() });
            write(&file, &kept.map_err(|e| unwritten(&file)(e.into()))?)?;
        }
        Ok(outcome)
    }

    /// ABC keeps its own time, so that it can report that it found nothing.
    fn search(&self, proof: &Proof) -> String {
        let seconds = self.limit.as_secs().saturating_sub(1).max(1);
        let search = match proof.method {
            Method::AnyLength => format!("pdr -T {seconds}"),
            Method::Cycles(cycles) => format!("bmc3 -T {seconds} -F {cycles}"),
        };
        format!("read_aiger model.aig; fold; strash; orpos; {search}; write_cex -a run.aiw")
    }

    /// Simulates the found run, and names the properties that it breaks.
    fn replayed(&self, proof: &Proof, folder: &Path) -> Result<Vec<String>> {
        let clock = if proof.clocks.is_empty() { "-clock clk_i" } else { "-multiclock" };
        let script =
            format!("read_rtlil flat.il; sim -map model.aim -r run.aiw {clock} -vcd counterexample.vcd");
        let text = self.tool("Yosys", &self.yosys, (proof.name, folder), &["-p", &script], "replay.log")?;
        let broken = |line: &str| {
            let name = line.strip_prefix("Warning: Assert ")?.split(' ').next()?;
            Some(name.split_once('.').map_or(name, |(_, below)| below).replace('\\', ""))
        };
        let mut properties: Vec<String> = text.lines().filter_map(broken).collect();
        properties.sort();
        properties.dedup();
        if properties.is_empty() {
            let reason = "the run that ABC found breaks no property".to_owned();
            return Err(failure!("cannot read the output of ABC for module '{}': {reason}", proof.name));
        }
        Ok(properties)
    }

    /// Runs a program and returns its output.
    fn tool(
        &self,
        name: &'static str,
        tool: &Tool,
        (module, folder): (&str, &Path),
        arguments: &[&str],
        log: &str,
    ) -> Result<String> {
        tool.run(name, (module, folder), arguments, log, self.limit)?;
        read(&folder.join(log))
    }
}

fn configured<T>(config: Result<T>) -> Result<T, HdlError> {
    config.map_err(|e| HdlError::Expression {
        module: "proof".into(),
        signal: "configuration".into(),
        what: format!("{e:#}"),
    })
}

/// A register whose clock is a value of a step: 1 is an edge.
const STEPS: &str = "(* techmap_celltype = \"$dff\" *)
module register_of_steps (CLK, D, Q);
    parameter WIDTH = 1;
    parameter CLK_POLARITY = 1;
    input CLK;
    input [WIDTH-1:0] D;
    output [WIDTH-1:0] Q;
    \\$ff #(.WIDTH(WIDTH)) _TECHMAP_REPLACE_ (.D(CLK ? D : Q), .Q(Q));
endmodule
";

/// Below the top, a module's assumptions are proved for its parent.
fn script(proof: &Proof, top: &str) -> String {
    let steps = if proof.clocks.is_empty() { "" } else { "dffunmap\ntechmap -map steps.v\nopt -full\n" };
    format!(
        "read_verilog -formal -DNDP_PROPERTIES design.v\n\
         prep -top {top} -nordff\n\
         chformal -assume2assert * {top} %d\n\
         chformal -cover -remove\n{}",
        to_aiger("", steps)
    )
}

/// From the hierarchy to the graph. `contents` sets the initial values of registers, else any; `steps` treats clocks
/// that are values of a step.
fn to_aiger(contents: &str, steps: &str) -> String {
    format!(
        "flatten\n\
         setundef -undriven -expose\n\
         memory_map\n\
         async2sync\n{contents}\
         opt -full\n\
         {steps}\
         write_rtlil flat.il\n\
         techmap\n\
         opt -fast\n\
         dffunmap\n\
         abc -g AND -fast\n\
         delete -output\n\
         opt_clean\n\
         write_aiger -I -B -zinit -no-startoffset -map model.aim model.aig\n"
    )
}

/// End of the top module: its first cycle is a reset.
fn appendix(proof: &Proof) -> String {
    let clocks: String = proof.clocks.iter().map(|clock| free_clock(clock)).collect();
    let steps = if clocks.is_empty() { "" } else { "always @* assume (clk_i);\n" };
    format!(
        "reg proof_started = 1'b0;\nalways @(posedge clk_i) proof_started <= 1'b1;\n\
         always @* assume (proof_started | ~rst_ni);\n{steps}{clocks}"
    )
}

/// A further clock: its edges are inputs. Its reset is the reset of the steps, lengthened until the clock has had an
/// edge and its effects are seen.
fn free_clock(clock: &str) -> String {
    format!(
        "reg proof_{clock}_resets = 1'b0, proof_{clock}_had = 1'b0, proof_{clock}_seen = 1'b0;\n\
         always @(posedge clk_i) proof_{clock}_resets <= ~rst_ni;\n\
         always @(posedge clk_i) proof_{clock}_had <= ~rst_ni & (proof_{clock}_had | {clock}_clk_i);\n\
         always @(posedge clk_i) proof_{clock}_seen <= ~rst_ni & proof_{clock}_had;\n\
         always @* assume ({clock}_edge_i == {clock}_clk_i);\n\
         always @* assume ({clock}_rst_ni == rst_ni);\n\
         always @* assume (~rst_ni | ~proof_{clock}_resets | proof_{clock}_seen);\n"
    )
}
