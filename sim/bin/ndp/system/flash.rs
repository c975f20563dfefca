//! Fields of neurons on an SSD.

use ndp_report::fields;

fields! { pub FLASH
    "resident_share" "with a slot" {Share} Screen: "slots of the DIMMs over neurons of the MLPs";
    "hit_rate" "hits" {Share} Screen: "part of the neurons that DIMMs needed that had a slot";
    "bundles_per_token" "bundles of a token" {Real("", 1)} Screen: "bundles that the SSD reads for a token";
    "ssd_bytes_per_token" "read for a token" {Bytes} Screen: "bytes that the SSD reads for a token";
    "ssd_busy_share" "SSD reads" {Share} Screen: "part of the time in which the SSD reads";
    "ssd_critical_share" "token waits for it" {Share} Screen: "part of the time in which the token waits for the SSD";
    "moved_bytes_without_holes_per_token" "would move" {Bytes} Verbose: "bytes that would change slots for a token if the slots in use had to be without holes; here none does";
    "neurons" "neurons" {Count} Verbose: "neurons of all MLP blocks";
    "slots" "slots" {Count} Verbose: "slots for them on all DIMMs";
    "bundle_bytes" "a bundle" {Bytes} Verbose: "bytes of a bundle";
    "moves_without_holes" "moves without holes" {Count} Json: "bundles that would have changed slots if the slots in use had to be without holes";
    "port_cycles" "cycles of ports" {Cycles} Json: "core cycles of the ports of all DIMMs";
    "tokens" "tokens" {Data} Json: "each token after the prompt: neurons needed, loaded and deleted, time of the SSD in ns, further rounds of MLPs";
}
