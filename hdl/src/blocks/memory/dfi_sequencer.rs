//! Power up of a DDR4 device (JESD79-4, 3.3.1): reset, CKE, mode registers in the standard's order, ZQ calibration,
//! with their waits.

use super::prelude::*;

/// Clocks: tMRD, tMOD, tZQinit, and tDLLK of the fastest grade.
const T_MRD: u32 = 8;
const T_MOD_LEAST: u32 = 24;
const T_MOD_PS: u64 = 15_000;
const T_ZQ_INIT: u32 = 1024;
const T_DLLK: u32 = 1024;
/// CKE's wait beyond tRFC.
const T_XPR_PS: u64 = 10_000;

/// RAS_n, CAS_n and WE_n of an address; ZQ calibration is the long one with A10.
const MRS: u128 = 0;
const ZQCL: u128 = 0b110 << 14 | 1 << 10;
/// No command: chip select stays high.
const NONE: u128 = 0b111 << 14;

/// One step: whether there is a command, its mode register and address, the device's reset and CKE, and clocks to the
/// next step.
struct Step {
    command: bool,
    mode: u128,
    address: u128,
    reset_n: bool,
    cke: bool,
    clocks: u32,
}

fn code(register: &str, codes: &[(u32, u128)], time: u32) -> Result<u128, HdlError> {
    codes.iter().find(|(value, _)| *value == time).map(|(_, code)| *code).ok_or_else(|| {
        HdlError::Expression {
            module: "dfi_sequencer".into(),
            signal: register.into(),
            what: format!(
                "{time} clocks have no code; there are codes for {}",
                codes.iter().map(|(value, _)| value.to_string()).collect::<Vec<_>>().join(", ")
            ),
        }
    })
}

/// CAS latency: A12, A6, A5, A4, A2 of MR0.
const CAS_LATENCIES: [(u32, u128); 24] = [
    (9, 0b00000),
    (10, 0b00001),
    (11, 0b00010),
    (12, 0b00011),
    (13, 0b00100),
    (14, 0b00101),
    (15, 0b00110),
    (16, 0b00111),
    (18, 0b01000),
    (20, 0b01001),
    (22, 0b01010),
    (24, 0b01011),
    (23, 0b01100),
    (17, 0b01101),
    (19, 0b01110),
    (21, 0b01111),
    (25, 0b10000),
    (26, 0b10001),
    (27, 0b10010),
    (28, 0b10011),
    (29, 0b10100),
    (30, 0b10101),
    (31, 0b10110),
    (32, 0b10111),
];
/// Write latency: A5, A4, A3 of MR2.
const WRITE_LATENCIES: [(u32, u128); 8] =
    [(9, 0), (10, 1), (11, 2), (12, 3), (14, 4), (16, 5), (18, 6), (20, 7)];
/// Write recovery and RD to PRE: A13, A11, A10, A9 of MR0, for auto precharge, which the controller never uses.
const RECOVERIES: [(u32, u32, u128); 9] = [
    (10, 5, 0),
    (12, 6, 1),
    (14, 7, 2),
    (16, 8, 3),
    (18, 9, 4),
    (20, 10, 5),
    (22, 11, 7),
    (24, 12, 6),
    (26, 13, 8),
];
/// tCCD_L: A12, A11, A10 of MR6.
const LONG_DISTANCES: [(u32, u128); 5] = [(4, 0), (5, 1), (6, 2), (7, 3), (8, 4)];

/// The mode registers, 0 to 6. Termination while writing is RZQ/2 (RTT_WR, RTT_NOM RZQ/4), everything else as after
/// reset.
fn modes(dfi: &DfiConfig, dram: &DramConfig) -> Result<[u128; 7], HdlError> {
    dfi.check(dram).map_err(|e| HdlError::Expression {
        module: "dfi_sequencer".into(),
        signal: "MR0".into(),
        what: e.to_string(),
    })?;
    let latency = code("MR0", &CAS_LATENCIES, dfi.cas_latency(dram))?;
    let recovery = RECOVERIES.iter().find(|(wr, rtp, _)| *wr >= dram.t_wr() && *rtp >= dram.t_rtp());
    let recovery = recovery.or(RECOVERIES.last()).map_or(0, |(.., code)| *code);
    let bits = |code: u128, from: u32, count: u32, to: u32| (code >> from & ((1 << count) - 1)) << to;
    // A8 resets the DLL; A3 and A1:0 are 0: sequential bursts of eight.
    let mr0 = bits(latency, 0, 1, 2)
        | bits(latency, 1, 3, 4)
        | bits(latency, 4, 1, 12)
        | bits(recovery, 0, 3, 9)
        | bits(recovery, 3, 1, 13)
        | 1 << 8;
    // A0 enables the DLL, A10:8 is RTT_NOM.
    let mr1 = 1 | 0b001 << 8;
    // A11:9 is RTT_WR.
    let mr2 = code("MR2", &WRITE_LATENCIES, dram.t_cwl())? << 3 | 0b001 << 9;
    let long = dram.t_ccd_l().clamp(4, 8);
    let mr6 = code("MR6", &LONG_DISTANCES, long)? << 10;
    Ok([mr0, mr1, mr2, 0, 0, 0, mr6])
}

/// Begins when the PHY is ready and ends for good: only its reset begins again.
///
/// # Errors
/// [`HdlError`] if a mode register has no code for a time, if devices of the speed grade have no such CAS latency, or
/// if the description breaks a rule of the language.
#[block(m, "dfi_sequencer_l{}_w{}_g{}_{}", dfi.cas_latency(dram), dram.t_cwl(), dram.bank_groups(),
    name(dfi, dram),
    "Initialises a DDR4 device.")]
pub fn dfi_sequencer(dfi: &DfiConfig, dram: &DramConfig) -> Block {
    let modes = modes(dfi, dram)?;
    let of_ps = |ps: u64| ps.div_ceil(dram.clock_ps()) as u32;
    let quiet = |reset_n: bool, cke: bool, clocks: u32| Step {
        command: false,
        mode: 0,
        address: NONE,
        reset_n,
        cke,
        clocks,
    };
    let given = |mode: u128, address: u128, clocks: u32| Step {
        command: true,
        mode,
        address,
        reset_n: true,
        cke: true,
        clocks,
    };
    let t_mod = T_MOD_LEAST.max(of_ps(T_MOD_PS));
    let mut steps = vec![
        quiet(false, false, dfi.reset_clocks(dram)),
        quiet(true, false, dfi.cke_clocks(dram)),
        quiet(true, true, dram.t_rfc() + of_ps(T_XPR_PS)),
    ];
    let order = [3, 6, 5, 4, 2, 1, 0];
    for mode in order {
        let clocks = if mode == 0 { t_mod } else { T_MRD };
        steps.push(given(mode as u128, MRS | modes[mode], clocks));
    }
    steps.push(given(0, ZQCL, T_ZQ_INIT.max(T_DLLK)));
    steps.push(quiet(true, true, 1));

    let count = steps.len() as u32;
    let longest = steps.iter().map(|step| step.clocks).max().unwrap_or(1);
    let (step_bits, time_bits) = (bits_for(count - 1), bits_for(longest));
    let complete = m.input(1, "the PHY can be used");
    let step = m.reg(step_bits).reset(0);
    let table = |of: &dyn Fn(&Step) -> u128, width: u32| {
        let values: Vec<u128> = each(1 << step_bits, |i| steps.get(i).or(steps.last()).map_or(0, of));
        rom(step, &values, width)
    };
    let last = m.wire(step.eq_lit((count - 1).into()));
    let left = m.reg(time_bits).reset(steps[0].clocks.into());
    let first = m.reg(1).reset(0);
    let ends = m.wire(left.eq_lit(1) & !last);
    let waits = m.wire(step.is_zero() & !complete);
    step.next(mux(ends, step.plus_one(), step));
    let next_time = {
        let values: Vec<u128> =
            each(1 << step_bits, |i| steps.get(i + 1).map_or(1, |step| step.clocks.into()));
        rom(step, &values, time_bits)
    };
    let counted = mux(waits | last, left, left.minus_one());
    left.next(mux(ends, next_time, counted));
    // A command is valid in the first clock of its step.
    first.next(ends);
    let registered =
        |name: &str, value: Bits, reset: u128| m.reg(name, value.width()).reset(reset).next(value);
    let command = table(&|step| step.command.into(), 1);
    m.output(cs_n = registered("cs_n_q", !(command & first), 1), "chip select, active low");
    let mode = registered("mode_q", table(&|step| step.mode, 3), 0);
    m.output(mode, "mode register: bank group, bank");
    m.output(a = registered("a_q", table(&|step| step.address, ADDRESS_PINS), NONE), "address pins");
    let reset_n = registered("reset_n_q", table(&|step| step.reset_n.into(), 1), 0);
    m.output(reset_n, "reset of the device, active low");
    m.output(cke = registered("cke_q", table(&|step| step.cke.into(), 1), 0), "clock enable");
    m.output(ready = registered("ready_q", last, 0), "the device can be used");
}

/// Suffix of module names: all other parameters.
fn name(dfi: &DfiConfig, dram: &DramConfig) -> String {
    let text = format!("{dfi:?} {dram:?}");
    let hash =
        text.bytes().fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("t{hash:08x}")
}
