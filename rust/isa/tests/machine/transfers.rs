//! Messages between machines: do they carry the contents of DRAM, do they arrive where they should, and does every
//! machine finish?

use ndp_config::DesignConfig;
use ndp_isa::machine::{Machine, SparseMemory, run_together};
use ndp_isa::{Program, parse};

fn run(texts: &[&str]) -> Vec<Machine<SparseMemory>> {
    let config = DesignConfig::preset("tiny").unwrap();
    let mut machines: Vec<_> =
        texts.iter().map(|_| Machine::new(&config, SparseMemory::new()).unwrap()).collect();
    let programs: Vec<Program> = texts.iter().map(|text| parse(text).unwrap()).collect();
    run_together(&mut machines, &programs).unwrap();
    machines
}

fn counts(machine: &Machine<SparseMemory>) -> [u32; 4] {
    let link = machine.link();
    [link.sent, link.received, link.failed, link.dropped]
}

#[test]
fn a_message_goes_to_the_ranks_and_bursts_that_the_receiver_names() {
    // Bursts 8, 9, 10, 11 of rank 1: odd bursts of the DIMM.
    let data = ".f16 17 1\n.f16 19 2\n.f16 21 3\n.f16 23 4\n";
    let send = format!("{data}send address=8, count=4, ranks=0x2, node=1, slot=7");
    let machines = run(&[&send, "receive address=0x40, count=2, ranks=0x3, node=0, slot=7"]);
    let got: Vec<u64> = (0x80..0x84).map(|burst| machines[1].memory().get(burst)[0]).collect();
    assert_eq!(got, [0x3C00, 0x4000, 0x4200, 0x4400]);
    assert_eq!([counts(&machines[0]), counts(&machines[1])], [[1, 0, 0, 0], [0, 1, 0, 0]]);
}

#[test]
fn both_ways_and_round_a_ring_of_three() {
    let texts = [0u32, 1, 2].map(|n| {
        format!(
            ".random 0x100 bursts=6 seed={n} kind=bits\nsend address=0x80, count=3, ranks=0x3, node={}, slot={n}\n\
             receive address=0x90, count=3, ranks=0x3, node={}, slot={}",
            (n + 1) % 3,
            (n + 2) % 3,
            (n + 2) % 3
        )
    });
    let machines = run(&[&texts[0], &texts[1], &texts[2]]);
    for n in 0..3 {
        for burst in 0..6 {
            let sent = machines[(n + 2) % 3].memory().get(0x100 + burst);
            assert!(sent != [0; 8] && machines[n].memory().get(0x120 + burst) == sent);
        }
    }
}

#[test]
fn what_is_not_expected_is_dropped_and_what_does_not_come_fails() {
    let send =
        |slot: u32, count: u32| format!("send address=0, count={count}, ranks=1, node=1, slot={slot}\n");
    let receive = |slot: u32| format!(".f16 64 5\nreceive address=32, count=2, ranks=1, node=0, slot={slot}");
    // Another slot, then the right one; another length; nothing.
    let right = run(&[&(send(1, 2) + &send(2, 2)), &receive(2)]);
    assert_eq!(counts(&right[1]), [0, 1, 0, 1]);
    let short = run(&[&send(2, 1), &receive(2)]);
    assert_eq!(counts(&short[1]), [0, 0, 1, 0]);
    assert_eq!(short[1].unspecified(64), u32::MAX);
    let nothing = run(&["nop", &receive(2)]);
    assert_eq!(counts(&nothing[1]), [0, 0, 1, 0]);
    assert_eq!((nothing[1].memory().get(64)[0], nothing[1].unspecified(64)), (0x4500, 0));
}

#[test]
fn a_receive_does_not_hold_up_what_follows_it_and_a_barrier_does() {
    let ring = |between: &str| {
        let node = |n: u32| {
            format!(
                "receive address=32, count=1, ranks=1, node={}, slot=0\n{between}send address=0, count=1, ranks=1, \
                 node={}, slot=0\n",
                1 - n,
                1 - n
            )
        };
        run(&[&node(0), &node(1)]).iter().map(counts).collect::<Vec<_>>()
    };
    assert_eq!(ring(""), [[1, 1, 0, 0]; 2]);
    // Each waits for the other: both are given up. Neither waits any more for data that the other sends afterwards.
    assert_eq!(ring("barrier\n"), [[1, 0, 1, 0]; 2]);
    let early = "receive address=0, count=1, ranks=1, node=0, slot=0\nload dst=0, cols=1, address=0";
    assert_eq!(run(&["send address=0, count=1, ranks=1, node=1, slot=0", early])[1].unfenced_reads(), 1);
}

#[test]
fn sending_what_was_stored_needs_a_barrier_and_so_does_using_what_was_received() {
    let other = "receive address=0, count=1, ranks=1, node=0, slot=0";
    let store = "store src=0, cols=1, address=0\n";
    let send = "send address=0, count=1, ranks=1, node=1, slot=0\n";
    let unfenced = |text: &str| {
        let machines = run(&[&format!("zero dst=0, count=1\n{text}"), other]);
        machines[0].unfenced_reads()
    };
    assert_eq!([unfenced(&format!("{store}{send}")), unfenced(&format!("{store}barrier\n{send}"))], [1, 0]);
    let send = "send address=0, count=1, ranks=1, node=1, slot=0";
    for (text, reads) in [("", 1), ("barrier\n", 0)] {
        let machines = run(&[send, &format!("{other}\n{text}load dst=0, cols=1, address=0")]);
        assert_eq!(machines[1].unfenced_reads(), reads);
    }
}
