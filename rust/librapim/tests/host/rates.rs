//! Does a sliced channel read and compute at once, does an unsliced one add both up, and are errors found?

use ndp_config::HbmConfig;
use ndp_dram::hbm::{HbmActivity, HbmOutputs, HbmStatistics, PseudoChannel};
use ndp_files::said;
use ndp_isa::layout::hbm::Interleaved;
use ndp_librapim::host::backend::Plan;
use ndp_librapim::host::batch::sizes_of;
use ndp_librapim::host::controller::{Access, Controller, Operation, Place, step_pair};
use ndp_librapim::host::groups::run_groups;
use ndp_librapim::host::machine::Done;
use ndp_librapim::host::memory::CacheShape;
use ndp_librapim::host::policy::Policy;
use ndp_librapim::host::{Arrangement, Channel, Machine, Pins, Prompt, boxed, run_arranged};
use ndp_librapim::offloading::{Hardware, Pim};
use ndp_model::Model;
use ndp_numerics::f16;
use std::path::Path;

/// Clocks until the end of `columns` reads in order of weights, and of `rows` rows of MACs.
fn clocks(config: &HbmConfig, columns: u64, rows: u32) -> [u64; 2] {
    let mut controller = busy(config, 0, Box::new(PseudoChannel::new(config).unwrap()), (columns, rows));
    let start = controller.clock();
    let mut ends = [0; 2];
    while !controller.is_idle() {
        controller.step().unwrap();
        while controller.take().is_some() {}
        for (end, busy) in ends.iter_mut().zip([controller.accesses() > 0, !controller.operations_done()]) {
            if busy {
                *end = controller.clock() - start;
            }
        }
    }
    let pins = controller.pins();
    assert_eq!(pins.violations(), 0);
    assert_eq!(pins.statistics().commands.mac, 32 * u64::from(rows));
    ends
}

fn busy(config: &HbmConfig, channel: u32, pins: Channel, (columns, rows): (u64, u32)) -> Controller {
    let mut controller = Controller::new(config, channel, pins).unwrap();
    let region = Interleaved::new(config, 0, config.rows() / 4).unwrap();
    for index in 0..columns {
        let at = region.place(index * u64::from(config.channels())).unwrap();
        let place = Place { bank: at.bank, row: at.row, column: at.column };
        controller.access(Access::Read(place));
    }
    for slot in 0..config.buffer_slots() as u8 {
        controller.operate(Operation::Load { slot, data: [0; 4] });
    }
    for row in 0..rows {
        controller.operate(Operation::Row(config.rows() / 2 + row));
        for column in 0..32 {
            let slot = column % config.buffer_slots() as u8;
            controller.operate(Operation::Mac { column, slot, first: column == 0, take: false });
        }
    }
    controller.operate(Operation::Close);
    controller
}

/// Clocks until both of a pair finish, each with that work.
fn pair_clocks(config: &HbmConfig, columns: u64, rows: u32) -> u64 {
    let mut pair: Vec<_> = (0..)
        .zip(boxed(PseudoChannel::all(config).unwrap()))
        .map(|(channel, pins)| busy(config, channel, pins, (columns, rows)))
        .collect();
    let start = pair[0].clock();
    while !pair.iter().all(Controller::is_idle) {
        step_pair(&mut pair).unwrap();
        pair.iter_mut().for_each(|controller| while controller.take().is_some() {});
    }
    for controller in &pair {
        assert_eq!(controller.pins().violations(), 0);
    }
    pair[0].clock() - start
}

#[test]
fn shared_column_buses_carry_all_reads_or_all_macs_but_not_both() {
    let own = HbmConfig::preset("hbm2-small").unwrap();
    let shared = HbmConfig::preset("hbm2-pseudo").unwrap();
    let (columns, rows) = (16_000, 180);
    let longest = |columns, rows| clocks(&own, columns, rows).into_iter().max().unwrap();
    for (columns, rows) in [(columns, 0), (0, rows), (columns, rows)] {
        let (alone, both) = (longest(columns, rows), pair_clocks(&shared, columns, rows));
        println!("{columns} reads, {rows} rows of MACs: {alone} clocks with buses of its own, {both} shared");
        // One command of either kind per clock of the column bus; the rest of a refresh interval is refresh.
        let commands = 2 * (columns + 32 * u64::from(rows));
        let bound = commands.max(alone);
        assert!(both >= commands && both < bound * 115 / 100, "{both} {bound}");
        assert_eq!(both * 100 > alone * 105, columns > 0 && rows > 0, "{alone} {both}");
    }
}

#[test]
fn a_sliced_channel_does_both_at_95_percent_of_each_and_an_unsliced_one_adds_them_up() {
    let sliced = HbmConfig::preset("librapim-small").unwrap();
    let unsliced = sliced.clone().unsliced();
    // A row of MACs is bound by activations of 16 banks within tFAW.
    let rows = 200;
    let [_, macs_alone] = clocks(&sliced, 0, rows);
    let columns = macs_alone * 9 / 20;
    for (config, is_sliced) in [(&sliced, true), (&unsliced, false)] {
        let ([reads, _], [_, macs]) = (clocks(config, columns, 0), clocks(config, 0, rows));
        let both = clocks(config, columns, rows);
        let share = |alone: u64, together: u64| alone as f64 / together as f64;
        let shares = [share(reads, both[0]), share(macs, both[1])];
        println!(
            "{}: {columns} reads alone {reads} clocks, {rows} rows of MACs alone {macs}; together {both:?}: {:.3}, {:.3}",
            config.name(),
            shares[0],
            shares[1]
        );
        assert!(2 * columns * 100 >= reads * 90, "{reads}");
        if is_sliced {
            assert!(shares.iter().all(|&share| share >= 0.95), "{shares:?}");
        } else {
            assert!(both[0].max(both[1]) as f64 >= 0.95 * (reads + macs) as f64, "{both:?}");
        }
    }
}

struct Faulty {
    channel: PseudoChannel,
    flip: fn(clock: u64, column_word: u32) -> bool,
    clock: u64,
    due: Vec<u64>,
}

impl Pins for Faulty {
    fn clock(&mut self, row: u32, column: u32, write: Option<[u64; 2]>) -> ndp_files::Result<HbmOutputs> {
        let mut out = self.channel.clock(row, column, write);
        if (self.flip)(self.clock, column) {
            self.due.push(self.clock + u64::from(self.channel.config().t_cl()));
        }
        if let Some(words) = out.read.as_mut().filter(|_| self.due.contains(&self.clock)) {
            words[0] ^= 1 << 9;
        }
        self.clock += 1;
        Ok(out)
    }

    fn violations(&self) -> u64 {
        self.channel.violation_count()
    }

    fn statistics(&self) -> HbmStatistics {
        self.channel.statistics()
    }

    fn activity(&self) -> HbmActivity {
        self.channel.activity()
    }
}

fn model() -> Model {
    Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/model")).unwrap()
}

fn run(channel: &HbmConfig, device: &HbmConfig, flip: fn(u64, u32) -> bool) -> ndp_files::Result<()> {
    let model = model();
    let hardware = Hardware::from(Pim { channels: channel.channels(), ..Pim::default() });
    let faulty = |_| Faulty { channel: PseudoChannel::new(device).unwrap(), flip, clock: 0, due: Vec::new() };
    let pins = boxed((0..channel.channels()).map(faulty));
    let prompt = Prompt { tokens: vec![65, 66], generate: 1, temperature_percent: 0, seed: 0 };
    run_arranged(
        &model,
        channel,
        &hardware,
        Arrangement { groups: 1, ..Arrangement::default() },
        &[prompt],
        pins,
    )
    .map(drop)
}

struct Dead;

impl Pins for Dead {
    fn clock(&mut self, _: u32, _: u32, _: Option<[u64; 2]>) -> ndp_files::Result<HbmOutputs> {
        Ok(HbmOutputs::default())
    }

    fn violations(&self) -> u64 {
        0
    }

    fn statistics(&self) -> HbmStatistics {
        HbmStatistics::default()
    }

    fn activity(&self) -> HbmActivity {
        HbmActivity::default()
    }
}

#[test]
fn work_may_take_long_but_a_dead_channel_is_an_error() {
    let config = HbmConfig::preset("librapim-small").unwrap();
    let hardware = Hardware::from(Pim { channels: 2, ..Pim::default() });
    let shape = CacheShape { sequences: 1, layers: 1, heads: 1, head_width: 64, positions: 16 };
    let data = vec![f16::ONE; 8192 * 192];
    let channels = boxed(PseudoChannel::all(&config).unwrap());
    let mut machine = Machine::new(&config, &hardware, shape, 0, channels).unwrap();
    machine.load("first", (8192, 192), &data).unwrap();
    machine.load("second", (8192, 192), &data).unwrap();
    assert!(machine.clock() > 200_000, "{}", machine.clock());
    machine.start_npu(0, "first", 1).unwrap();
    assert_eq!(machine.run().unwrap(), Some(Done::Npu(0)));
    let mut dead = Machine::new(&config, &hardware, shape, 0, boxed([Dead, Dead])).unwrap();
    let error = dead.load("first", (32, 32), &data[..1024]).and_then(|()| {
        dead.start_npu(0, "first", 1)?;
        dead.run()
    });
    assert!(said(&error).starts_with("channel 0 makes no progress"), "{error:?}");
}

#[test]
fn a_group_that_panics_ends_the_run() {
    let config = HbmConfig::preset("librapim-small").unwrap();
    let hardware = Hardware::from(Pim { channels: 2, ..Pim::default() });
    let shape = CacheShape { sequences: 1, layers: 1, heads: 1, head_width: 64, positions: 16 };
    let channels = boxed(PseudoChannel::all(&config).unwrap());
    let mut machine = Machine::new(&config, &hardware, shape, 0, channels).unwrap();
    let sizes = sizes_of(&model());
    let plan =
        Plan { memory: machine.memory().clone(), npu: machine.npu().clone(), sizes, is_timing_only: false };
    let contexts = vec![Vec::new(); 2];
    let result = run_groups(&mut machine, contexts, &plan, &Policy::none(), |group, _| {
        assert!(group == 0, "group 1 fails");
        Ok(())
    });
    assert_eq!(result.map(drop).unwrap_err().to_string(), "a group stopped: it panicked");
}

#[test]
fn injected_errors_are_found() {
    let config = HbmConfig::preset("librapim-small").unwrap();
    run(&config, &config, |_, _| false).unwrap();
    // Opcodes of RD and RES.
    let wrong_read = run(&config, &config, |clock, word| clock > 130_000 && word & 15 == 1);
    assert!(said(&wrong_read).contains(": read "), "{wrong_read:?}");
    let wrong_sum = run(&config, &config, |_, word| word & 15 == 6).unwrap_err().to_string();
    assert!(wrong_sum.contains("attention"), "{wrong_sum}");
    let slower = |key: &str, value: u32| {
        let text = format!(
            "name = \"slower\"\n[device]\nchannels = 2\nrow_bits = 9\nsubarray_rows = 32\nweight_subarrays = 8\n[timing]\n{key} = {value}\n"
        );
        HbmConfig::from_toml(&text).unwrap()
    };
    for (key, value) in [("t_rcd", 15), ("t_faw", 31), ("t_wr", 17), ("t_mac", 17), ("t_rp", 15)] {
        let device = if key == "t_rp" { slower("t_rc = 49\nt_rp", value) } else { slower(key, value) };
        let refused = run(&config, &device, |_, _| false);
        assert!(said(&refused).contains("the memory refused"), "{key}: {refused:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let tiny = HbmConfig::preset("librapim-tiny").unwrap();
    let error = run(&tiny, &tiny, |_, _| false).unwrap_err().to_string();
    assert_eq!(
        error,
        "heads with keys and values: 12 needed, only 4 available; take a memory with more channels or rows, or fewer or shorter requests"
    );
}
