//! Checks that each nanosecond of a generation has a cause.

use ndp_sim::system::{Breakdown, Event, Resource, Shares, SystemFigures};

/// The critical path goes from the end of the prompt to the end of the last token without a gap, and each device has
/// all of that time accounted for.
pub fn every_nanosecond_has_a_cause(figures: &SystemFigures, events: &[Event]) -> Breakdown {
    let found = Breakdown::new(figures, events);
    let (tokens, _, ns) = figures.generated();
    assert_eq!((found.tokens, found.ns, found.unexplained_ns), (tokens, ns, 0));
    let mut now = figures.prompt_ns;
    for segment in &found.path {
        assert_eq!((segment.begin_ns, segment.shares.total()), (now, segment.end_ns - now), "{segment:?}");
        now = segment.end_ns;
    }
    assert_eq!(now, figures.prompt_ns + ns);
    assert_eq!(found.critical_path_ns.values().map(Shares::total).sum::<u64>(), ns);
    for dimm in 0..figures.dimms.len() as u32 {
        assert!(found.devices.iter().any(|device| device.place == Resource::Dimm(dimm)));
    }
    for device in &found.devices {
        let waited: u64 = device.waits_for_ns.values().sum();
        assert_eq!(device.busy_ns.total() + waited, ns, "{device:?}");
    }
    found
}
