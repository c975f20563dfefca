//! The crossbar of a bridge at its ports: does every flit come out where its route leads, whole and unchanged, and in its turn?
//!
//! Routes to all DIMMs are drawn, including routes that lead nowhere. Then some inputs want one output without a pause,
//! and have to be served in turn.

use common::Outcome;
use common::rtl::{design, design_config};
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{InputPort, Model, OpenOptions, OutputPort};
use std::collections::VecDeque;
use std::error::Error;

const NODES: usize = 16;
/// Bits of a route: the port, and whether there is one.
const ROUTE: usize = 4;
const PORT: u64 = 7;
const KNOWN: u64 = 8;
const PATIENCE: u32 = 400;

/// A beat: its data, then end of message, destination, source, label.
type Beat = ([u32; 16], [u64; 4]);
/// Flits waiting at an input, with their beats.
type Flits = VecDeque<VecDeque<Beat>>;

const FIELDS: [&str; 4] = ["last", "dest", "source", "label"];

struct Input {
    valid: InputPort,
    data: InputPort,
    fields: [InputPort; 4],
    flit_last: InputPort,
    ready: OutputPort,
    misrouted: OutputPort,
}

struct Output {
    valid: OutputPort,
    data: OutputPort,
    fields: [OutputPort; 4],
    ready: InputPort,
}

struct Bench {
    model: Model,
    routes: InputPort,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    random: SplitMix64,
}

/// Beats from each output, in order, and the number of dropped flits of each input.
type Run = (Vec<Vec<Beat>>, Vec<u64>);

impl Bench {
    fn open(seed: u64) -> Result<Self, Box<dyn Error>> {
        let ports = design_config("tiny")?.link().bridge_ports();
        let model = Model::open(&design("tiny", "link_switch", &[])?, &OpenOptions::default())?;
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for p in 0..ports {
            let of_input = |name: &str| model.input(&format!("rx{p}_{name}_i"));
            let of_output = |name: &str| model.output(&format!("tx{p}_{name}_o"));
            let [last, dest, source, label] = FIELDS;
            inputs.push(Input {
                valid: of_input("valid")?,
                data: of_input("data")?,
                fields: [of_input(last)?, of_input(dest)?, of_input(source)?, of_input(label)?],
                flit_last: of_input("flit_last")?,
                ready: model.output(&format!("rx{p}_ready_o"))?,
                misrouted: model.output(&format!("misrouted{p}_o"))?,
            });
            outputs.push(Output {
                valid: of_output("valid")?,
                data: of_output("data")?,
                fields: [of_output(last)?, of_output(dest)?, of_output(source)?, of_output(label)?],
                ready: model.input(&format!("tx{p}_ready_i"))?,
            });
        }
        let routes = model.input("routes_i")?;
        Ok(Self { model, routes, inputs, outputs, random: SplitMix64::new(seed) })
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    /// A flit of the input, with this number of beats. The lowest word of a beat names its input.
    fn flit(&mut self, input: usize, dest: u64, beats: u64) -> VecDeque<Beat> {
        let (source, label) = (self.below(NODES as u64), self.below(1 << 17));
        let beat = |_| {
            let mut data = [0; 16].map(|_: u32| self.random.next_u64() as u32);
            data[0] = input as u32;
            (data, [self.below(2), dest, source, label])
        };
        (0..beats).map(beat).collect()
    }

    /// Sends the flits of all inputs; each handshake stalls in `stalls` of 256 cycles.
    fn run(&mut self, routes: &[u64; NODES], mut flits: Vec<Flits>, stalls: u64) -> Run {
        let packed = routes.iter().rev().fold(0, |all, route| all << ROUTE | route);
        self.model.reset(2);
        self.model.set(self.routes, packed);
        let (mut came, mut misrouted) = (vec![Vec::new(); self.outputs.len()], vec![0; self.inputs.len()]);
        let mut offered = vec![false; self.inputs.len()];
        let mut quiet = 0;
        while quiet < PATIENCE {
            quiet += 1;
            for p in 0..self.inputs.len() {
                // An offered beat stays.
                let stands = self.below(256) < stalls;
                let takes = self.below(256) >= stalls;
                let Input { valid, data, fields, flit_last, .. } = self.inputs[p];
                offered[p] = !flits[p].is_empty() && (offered[p] || !stands);
                self.model.set(valid, offered[p].into());
                if let Some(flit) = flits[p].front() {
                    let (words, values) = flit[0];
                    self.model.set_words(data, &words);
                    fields.iter().zip(values).for_each(|(field, value)| self.model.set(*field, value));
                    self.model.set(flit_last, (flit.len() == 1).into());
                }
                self.model.set(self.outputs[p].ready, takes.into());
                self.model.eval();
                let Output { valid, data, fields, .. } = self.outputs[p];
                if takes && self.model.get(valid) == 1 {
                    let mut words = [0; 16];
                    self.model.get_words(data, &mut words);
                    came[p].push((words, fields.map(|field| self.model.get(field))));
                    quiet = 0;
                }
            }
            for (p, input) in self.inputs.iter().enumerate() {
                misrouted[p] += self.model.get(input.misrouted);
                if offered[p] && self.model.get(input.ready) == 1 {
                    offered[p] = false;
                    quiet = 0;
                    flits[p][0].pop_front();
                    if flits[p][0].is_empty() {
                        flits[p].pop_front();
                    }
                }
            }
            self.model.tick();
        }
        assert!(flits.iter().all(VecDeque::is_empty), "flits are not taken: {flits:x?}");
        (came, misrouted)
    }
}

#[test]
fn every_flit_comes_out_where_its_route_leads_and_is_dropped_where_there_is_none() -> Outcome {
    let mut bench = Bench::open(1)?;
    let ports = bench.inputs.len();
    let mut dropped = 0;
    for round in 0..40 {
        let routes = [0; NODES].map(|_: u64| bench.below(2 * KNOWN));
        let mut flits = vec![Flits::new(); ports];
        for number in 0..ports * 48 {
            let (dest, beats) = (bench.below(NODES as u64), 1 + bench.below(4));
            let flit = bench.flit(number % ports, dest, beats);
            flits[number % ports].push_back(flit);
        }
        let leads = |flit: &VecDeque<Beat>| {
            let route = routes[flit[0].1[1] as usize];
            let port = (route & PORT) as usize;
            (route & KNOWN != 0 && port < ports).then_some(port)
        };
        let lost = |flits: &Flits| flits.iter().filter(|flit| leads(flit).is_none()).count() as u64;
        let expected: Vec<u64> = flits.iter().map(lost).collect();
        dropped += expected.iter().sum::<u64>();
        let (came, misrouted) = bench.run(&routes, flits.clone(), [0, 60, 180][round % 3]);
        assert_eq!(misrouted, expected, "round {round}: flits that have no route");
        for (output, mut came) in came.into_iter().map(VecDeque::from).enumerate() {
            while let Some((data, _)) = came.front() {
                let input = data[0] as usize;
                let of_input = flits.get_mut(input);
                let of_input =
                    of_input.ok_or_else(|| format!("round {round}, output {output}: {came:x?}"))?;
                let next = of_input.iter().position(|flit| leads(flit) == Some(output));
                let flit = next.and_then(|next| of_input.remove(next));
                let flit = flit.ok_or_else(|| format!("round {round}, output {output}: one flit more"))?;
                let found: VecDeque<Beat> = came.drain(..flit.len().min(came.len())).collect();
                assert_eq!(found, flit, "round {round}, from input {input} to output {output}");
            }
        }
        assert!(flits.iter().flatten().all(|flit| leads(flit).is_none()), "round {round}: flits are missing");
    }
    assert!(dropped > 1000, "{dropped}");
    Ok(())
}

#[test]
fn inputs_that_want_the_same_output_are_served_in_turn() -> Outcome {
    let mut bench = Bench::open(2)?;
    let ports = bench.inputs.len();
    for output in 0..ports {
        for wanting in 1..1_u32 << ports {
            let wants = |input: usize| wanting >> input & 1 == 1;
            for beats in [1, 3] {
                let mut flits = vec![Flits::new(); ports];
                for input in (0..ports).filter(|input| wants(*input)) {
                    let of_input = (0..8).map(|_| bench.flit(input, 5, beats)).collect();
                    flits[input] = of_input;
                }
                let (came, _) = bench.run(&[KNOWN | output as u64; NODES], flits, 0);
                let order: Vec<usize> =
                    came[output].iter().step_by(beats as usize).map(|(data, _)| data[0] as usize).collect();
                // After a reset the first input was served last.
                let mut before = 0;
                let expected: Vec<usize> = (0..8 * wanting.count_ones())
                    .map(|_| {
                        before = (1..=ports).map(|on| (before + on) % ports).find(|p| wants(*p)).unwrap_or(0);
                        before
                    })
                    .collect();
                assert_eq!(order, expected, "output {output}, inputs {wanting:#b}, {beats} beats");
            }
        }
    }
    Ok(())
}
