//! A channel of memory that computes: does the RTL say the same as the device model in every clock, whatever it is given?
//!
//! Both get the same words on the command buses and the data bus; every answer, every word on the bus and every report is compared,
//! and so every sum, by RES and SUM. Random streams meet every rule; the tables of `docs/hbm-pim.md` are gone through one by one,
//! one clock too early and in time, with numbers written out here. Errors planted in the Verilog have to be found.

#[path = "support/pim_streams.rs"]
mod pim_streams;

use ndp_config::HbmConfig;
use ndp_cosim::ffi::{OpenOptions, designs};
use ndp_cosim::hbm::{Lockstep, LockstepError};
use ndp_dram::hbm::HbmCommand::{self, *};
use pim_streams::Stream;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;

type Outcome = Result<(), Box<dyn Error>>;

const TINY: &str = "librapim-tiny";
const AIM: &str = "aim-tiny";
const PAPER: &str = "librapim";
/// Clocks of a quiet wait after which nothing binds any more.
const APART: u64 = 300;

fn config(design: &str) -> Result<HbmConfig, Box<dyn Error>> {
    let name = format!("{design}/pim_channel");
    let info = designs().find(|info| info.name == name).ok_or(format!("{name} was not built"))?;
    Ok(HbmConfig::from_toml(info.config_toml)?)
}

fn open(design: &str, random: Option<u32>) -> Result<Lockstep, Box<dyn Error>> {
    let options = OpenOptions { random_contents: random, ..OpenOptions::default() };
    Ok(Lockstep::open(design, &config(design)?, &options)?)
}

fn words(command: HbmCommand) -> [u32; 2] {
    use ndp_dram::CommandSet;
    let is_row = command.kind().is_some_and(ndp_dram::hbm::HbmKind::is_row);
    if is_row { [command.encode(), 0] } else { [0, command.encode()] }
}

/// Prints a measured figure past the capture of the test's output.
fn report(line: &str) -> Outcome {
    writeln!(std::io::stderr(), "pim_channel: {line}")?;
    Ok(())
}

/// Gives `command` in every clock until it is carried out, with `data` if it writes; returns what it reads.
fn insist(
    sides: &mut Lockstep,
    command: HbmCommand,
    data: [[u64; 2]; 2],
) -> Result<[[u64; 2]; 2], Box<dyn Error>> {
    let c = sides.device.config().clone();
    let [row, column] = words(command);
    let bus = usize::from(row == 0);
    let mut tries = 0;
    while sides.clock(row, column, None)?.status[bus] != 0 {
        tries += 1;
        if tries > 5_000 {
            return Err(
                format!("{command} is never carried out: {:?}", sides.device.violations().last()).into()
            );
        }
    }
    let mut read = [[0; 2]; 2];
    for after in 1..u64::from(c.t_cl()) + 2 {
        let half = after.checked_sub(c.t_cwl().into()).filter(|half| *half < 2);
        let writes = matches!(command, Write { .. } | BufferWrite { .. });
        let out = sides.clock(0, 0, half.filter(|_| writes).map(|half| data[half as usize]))?;
        if let (Some(words), Some(half)) = (out.read, after.checked_sub(c.t_cl().into())) {
            read[half as usize] = words;
        }
    }
    Ok(read)
}

fn wait(sides: &mut Lockstep, clocks: u64) -> Result<(), LockstepError> {
    (0..clocks).try_for_each(|_| sides.clock(0, 0, None).map(|_| ()))
}

/// All columns of a row, one after the other as fast as the bus allows.
fn row_of(sides: &mut Lockstep, at: (u8, u8, u32), fill: Option<&mut Stream>) -> Outcome {
    let c = sides.device.config().clone();
    let (bank_group, bank, row) = at;
    let refused = |status: [u8; 2], what: &str| format!("{what} of {at:?} is refused: {status:?}");
    let step = u64::from(c.t_ccd_l());
    let end = step * u64::from(HbmConfig::COLUMNS);
    let mut sources = fill;
    let mut data = Vec::new();
    let writes = sources.is_some();
    for _ in 0..HbmConfig::COLUMNS * 2 {
        data.push(sources.as_mut().map_or([0; 2], |stream| stream.data()));
    }
    let activate = words(Activate { bank_group, bank, partition: 0, row })[0];
    let status = sides.clock(activate, 0, None)?.status;
    if status[0] != 0 {
        return Err(refused(status, "ACT").into());
    }
    wait(sides, u64::from(c.t_ras()))?;
    let cwl = u64::from(c.t_cwl());
    for clock in 0..end + cwl + 2 {
        let due = clock
            .checked_sub(cwl)
            .map(|clock| (clock / step, clock % step))
            .filter(|(n, half)| writes && *n < u64::from(HbmConfig::COLUMNS) && *half < 2);
        let word = if clock < end && clock % step == 0 {
            // Below 32.
            let column = (clock / step) as u8;
            let (partition, auto_precharge) = (0, false);
            words(match writes {
                true => Write { bank_group, bank, partition, column, auto_precharge },
                false => Read { bank_group, bank, partition, column, auto_precharge },
            })[1]
        } else {
            0
        };
        let write = due.map(|(n, half)| data[(2 * n + half) as usize]);
        let status = sides.clock(0, word, write)?.status;
        if status[1] != 0 {
            return Err(refused(status, "an access").into());
        }
    }
    wait(sides, u64::from(c.t_wr() + c.t_cl()))?;
    sides.clock(PrechargeAll.encode(), 0, None)?;
    wait(sides, u64::from(c.t_rp()))?;
    Ok(())
}

/// Random streams, each broken off by a reset; `rows` of each bank are written before and read at the end.
fn streams(design: &str, seed: u64, count: u64, clocks: u64, rows: &[u32]) -> Result<Stream, Box<dyn Error>> {
    let c = config(design)?;
    // Contents that are all written may be anything before.
    let random = (rows.len() == c.rows() as usize).then_some(seed as u32);
    let mut sides = open(design, random)?;
    let mut stream = Stream::new(&c, seed);
    let places = || {
        (0..c.bank_groups() as u8)
            .flat_map(|group| (0..c.banks_per_group() as u8).map(move |bank| (group, bank)))
            .flat_map(|(group, bank)| rows.iter().map(move |row| (group, bank, *row)))
    };
    for at in places() {
        row_of(&mut sides, at, Some(&mut stream))?;
    }
    sides.reset(1)?;
    for n in 0..count {
        for _ in 0..clocks / 2 + stream.below(clocks) {
            stream.step(&mut sides).map_err(|e| format!("{design}, seed {seed}, stream {n}: {e}"))?;
        }
        // In the middle of whatever is going on.
        let length = 1 + stream.below(3);
        sides.reset(length)?;
        stream.restart();
    }
    for at in places() {
        row_of(&mut sides, at, None).map_err(|e| format!("{design}, seed {seed}, at the end: {e}"))?;
    }
    Ok(stream)
}

/// Codes that must have come up: all but those that the memory cannot give.
fn expect_codes(design: &str, seen: &BTreeMap<u8, u64>) -> Outcome {
    let c = config(design)?;
    let absent = |code: u8| match code {
        // Slicing, or its absence.
        6 | 11 | 12 | 48 => !c.slicing(),
        13 => c.slicing(),
        14 => c.all_bank_activate(),
        // Two distances that are the same; the distances keep bursts apart.
        40 => c.t_ccd_l() == HbmConfig::T_BL && false,
        51 => true,
        _ => false,
    };
    let codes = (0..=14).chain(32..=51).chain(64..=66);
    for code in codes.filter(|code| !absent(*code)) {
        assert!(
            seen.get(&code).is_some_and(|count| *count > 0),
            "{design}: code {code} has not come up: {seen:?}"
        );
    }
    for code in (0..=66).filter(|code| absent(*code)) {
        assert!(seen.get(&code).is_none_or(|count| *count == 0), "{design}: code {code} came up");
    }
    Ok(())
}

fn run_streams(design: &str, seed: u64, count: u64, clocks: u64, rows: &[u32]) -> Outcome {
    let stream = streams(design, seed, count, clocks, rows)?;
    let refused: u64 = stream.seen.iter().filter(|(code, _)| (1..64).contains(*code)).map(|(_, n)| n).sum();
    report(&format!("{design}: {count} streams, {} commands carried out, {refused} refused", stream.done))?;
    expect_codes(design, &stream.seen)
}

#[test]
fn random_streams_on_sliced_banks() -> Outcome {
    let rows: Vec<u32> = (0..config(TINY)?.rows()).collect();
    run_streams(TINY, 1, 1_000, 400, &rows)
}

#[test]
fn random_streams_without_slicing() -> Outcome {
    let rows: Vec<u32> = (0..config(AIM)?.rows()).collect();
    run_streams(AIM, 2, 500, 600, &rows)
}

#[test]
fn random_streams_on_the_papers_channel() -> Outcome {
    let c = config(PAPER)?;
    let edges = [0, c.subarray_rows() - 1, c.subarray_rows(), c.weight_rows(), c.rows() - 1];
    let stream = streams(PAPER, 3, 40, 1_500, &edges)?;
    report(&format!("{PAPER}: 40 streams, {} commands carried out; {:?}", stream.done, stream.seen))?;
    Ok(())
}
