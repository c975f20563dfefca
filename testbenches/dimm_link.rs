//! The DIMM-link.

use ndp_config::{DesignConfig, LinkConfig};
use ndp_cosim::link::flow::Flow;
use ndp_cosim::link::network::Network;
use std::error::Error;
type Outcome = Result<(), Box<dyn Error>>;
fn link(preset: &str) -> Result<LinkConfig, Box<dyn Error>> {
    Ok(DesignConfig::preset(preset)?.link().clone())
}
#[test]
fn first() -> Outcome {
    for design in ["tiny", "hermes"] {
        let config = link(design)?;
        let mut net = Network::pair(design, &config, 1)?;
        let start = std::time::Instant::now();
        for (a, b) in [(0, 1), (1, 0)] {
            net.send(Flow { source: a, dest: b, epoch: 0, message_beats: 64 }, 8000);
        }
        net.drain(20_000)?;
        println!("{design} {} cycles {} flits {:?}", net.cycle(), net.flits(), start.elapsed());
        println!("{:?} {:?}", net.counters(0)?, net.nodes[0].status());
    }
    Ok(())
}
