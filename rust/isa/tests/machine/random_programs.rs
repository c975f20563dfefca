//! Are random programs legal and fully specified, do they use everything, and does the machine give them the same
//! results every time?

use std::collections::BTreeMap;

use ndp_config::DesignConfig;
use ndp_isa::layout::elements_of;
use ndp_isa::machine::{Machine, SparseMemory, dump_bursts};
use ndp_isa::{Code, Data, ErrorCode, Instruction, Opcode, Program, decode, parse};
use ndp_numerics::SplitMix64;
use ndp_testkit::{ProgramOptions, RandomPrograms, malformed_word};

fn run(config: &DesignConfig, program: &Program) -> Machine<SparseMemory> {
    let mut machine = Machine::new(config, SparseMemory::new()).unwrap();
    machine.run(program).unwrap();
    machine
}

fn outputs(config: &DesignConfig, program: &Program, machine: &Machine<SparseMemory>) -> Vec<[u64; 8]> {
    let bursts = program.dumps.iter().flat_map(|dump| dump_bursts(config, *dump));
    bursts.map(|burst| machine.memory().get(burst)).collect()
}

#[test]
fn programs_are_legal_specified_and_varied() {
    for (preset, programs) in [("tiny", 400), ("hermes", 60)] {
        let config = DesignConfig::preset(preset).unwrap();
        let mut opcodes = BTreeMap::new();
        let (mut instructions, mut collisions, mut dumped) = (0, 0, 0u32);
        let (mut selected, mut selections) = (0, [0; 3]);
        let (mut finite, mut special, mut in_place, mut listed, mut wraps, mut stored) =
            (0u32, 0u32, 0, 0, 0, 0);
        for (index, program) in RandomPrograms::new(&config, 1).take(400).enumerate() {
            // A few more if an instruction is missing; `send` and `receive` always are.
            if index >= programs && opcodes.len() + 2 >= Opcode::ALL.len() {
                break;
            }
            let machine = run(&config, &program);
            assert_eq!(machine.status().malformed, 0, "{preset} {index}:\n{program}");
            assert_eq!(machine.unfenced_reads(), 0, "{preset} {index}:\n{program}");
            assert_eq!(
                machine.status().signals as usize,
                program.code.iter().filter(|c| is_signal(c)).count()
            );
            let mut before: Option<Instruction> = None;
            for code in &program.code {
                let Code::Instruction(instruction) = code else { panic!("{code}") };
                *opcodes.entry(instruction.opcode()).or_insert(0) += 1;
                instructions += 1;
                collisions += u32::from(before.is_some_and(|b| b.collides(instruction, &config)));
                before = Some(*instruction);
                match instruction {
                    Instruction::Round { src, dst, .. } => in_place += u32::from(src == dst),
                    Instruction::Dot(p) | Instruction::Axpy(p) => {
                        listed += u32::from(p.list.is_some());
                        selected += u32::from(p.selected);
                        let at = p.address;
                        let placed =
                            |data: &Data| matches!(data, Data::Matrix { address, .. } if *address == at);
                        stored += u32::from(!program.data.iter().any(placed));
                    }
                    _ => {}
                }
            }
            for mask in machine.masks() {
                let mask = mask.unwrap_or_else(|| panic!("{preset} {index}:\n{program}"));
                selections[usize::from(mask != 0) + usize::from(mask == u32::MAX)] += 1;
            }
            for dump in &program.dumps {
                wraps += u32::from(u64::from(dump.address + dump.bursts) > 1 << config.dimm_burst_bits());
                for burst in dump_bursts(&config, *dump) {
                    assert_eq!(
                        machine.unspecified(burst),
                        0,
                        "{preset} {index}, burst {burst:#x}:\n{program}"
                    );
                    dumped += 1;
                    for bits in elements_of(&machine.memory().get(burst)) {
                        finite += u32::from(bits & 0x7FFF != 0 && bits & 0x7C00 != 0x7C00);
                        special += u32::from(bits & 0x7C00 == 0x7C00);
                    }
                }
            }
            assert!(parse(&program.to_string()).as_ref() == Ok(&program));
        }
        println!(
            "{preset}: {instructions} instructions, {collisions} neighbours collide, {dumped} bursts, {finite} finite \
             and {special} special results, {in_place} in place, {listed} listed, {stored} on stored data, {selected} selected, {selections:?} masks, {wraps} across the end; {opcodes:?}"
        );
        // Without a link no DIMM sends.
        let missing: Vec<_> =
            Opcode::ALL.into_iter().filter(|opcode| !opcodes.contains_key(opcode)).collect();
        assert_eq!(missing, [Opcode::Send, Opcode::Receive], "{preset}: no program has one of these");
        assert!(
            selected > 10 && (selections[0] > 3 && selections[1] > 3 && selections[2] > 3 || programs < 100)
        );
        assert!(collisions * 5 > instructions, "{collisions} of {instructions}");
        // Of exported sums most bits are zeros or signs.
        assert!(finite > 5 * dumped && special > dumped / 10);
        assert!(in_place > 2 && listed > 10);
        assert!((wraps > 0 && stored > 10) || programs < 100);
    }
}

fn is_signal(code: &Code) -> bool {
    matches!(code, Code::Instruction(Instruction::Signal { .. }))
}

#[test]
fn the_same_seed_gives_the_same_programs() {
    let config = DesignConfig::preset("tiny").unwrap();
    let programs = |seed| RandomPrograms::new(&config, seed).take(5).collect::<Vec<_>>();
    assert_eq!(programs(7), programs(7));
    assert_ne!(programs(7), programs(8));
}

#[test]
fn malformed_words_change_no_result() {
    let config = DesignConfig::preset("tiny").unwrap();
    let options = ProgramOptions { malformed_percent: 30, ..ProgramOptions::default() };
    let mut malformed = 0;
    for program in RandomPrograms::with_options(&config, 2, options).take(100) {
        let machine = run(&config, &program);
        let mut clean = program.clone();
        clean.code.retain(|code| matches!(code, Code::Instruction(_)));
        assert_eq!(machine.status().malformed as usize, program.code.len() - clean.code.len());
        malformed += machine.status().malformed;
        assert_eq!(outputs(&config, &program, &machine), outputs(&config, &clean, &run(&config, &clean)));
    }
    assert!(malformed > 300, "{malformed}");
}

#[test]
fn malformed_words_of_every_code_can_be_made() {
    let without = DesignConfig::from_toml("name = \"without-link\"\n[core]\nlink = false").unwrap();
    let presets = DesignConfig::PRESETS.map(|preset| DesignConfig::preset(preset).unwrap());
    for config in presets.into_iter().chain([without]) {
        let preset = config.name();
        let mut random = SplitMix64::new(3);
        // With a link no word is refused for the want of one.
        let found = |code: &ErrorCode| *code != ErrorCode::Link || !config.core().link();
        for code in ErrorCode::PRECEDENCE.into_iter().filter(found) {
            let words: Vec<u128> = (0..50).map(|_| malformed_word(&config, code, &mut random)).collect();
            for word in &words {
                let found = decode(*word, &config).map_err(|error| error.code());
                assert_eq!(found, Err(code), "{preset}: {word:#034x}");
            }
            let mut distinct = words.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert!(distinct.len() > 10, "{preset}, {code:?}: {} different words", distinct.len());
        }
    }
}

/// Otherwise the outputs would check nothing.
#[test]
fn a_missing_instruction_shows_in_the_outputs() {
    let config = DesignConfig::preset("tiny").unwrap();
    let (mut shown, mut tried) = ([0; 2], [0; 2]);
    for program in RandomPrograms::new(&config, 4).take(60) {
        let expected = outputs(&config, &program, &run(&config, &program));
        for index in 0..program.code.len() {
            let Code::Instruction(instruction) = program.code[index] else { continue };
            let place = match instruction {
                Instruction::Dot(_) | Instruction::Axpy(_) | Instruction::Store { .. } => 0,
                Instruction::Export { .. } | Instruction::Merge { .. } | Instruction::Import { .. } => 1,
                _ => continue,
            };
            let mut broken = program.clone();
            broken.code.remove(index);
            tried[place] += 1;
            shown[place] += u32::from(outputs(&config, &broken, &run(&config, &broken)) != expected);
        }
    }
    println!("{shown:?} of {tried:?} missing instructions show");
    assert!(shown.iter().zip(tried).all(|(shown, tried)| shown * 2 > tried), "{shown:?} of {tried:?}");
}
